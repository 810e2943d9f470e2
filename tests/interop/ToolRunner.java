import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import javax.tools.ToolProvider;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs command line tools one after the other in one virtual machine, which starts once.
 *
 * Each line of its input is one run: what the tool reads from stdin, in base64, its class or the file
 * of its source, and its arguments, separated by tabs. The answer is a line with the exit code and the sizes of stdout and stderr in bytes, and then these.
 */
public class ToolRunner {
    private static final class Ended extends RuntimeException {
        Ended() {
            super("the tool ended", null, false, false);
        }
    }

    private static final Map<String, Class<?>> compiled = new HashMap<>();
    private static Integer exitCode;

    public static void main(String[] args) throws Exception {
        Exit.Procedure end = (code, message) -> {
            if (exitCode == null) {
                exitCode = code;
            }
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        PrintStream answers = System.out;
        BufferedReader runs =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = runs.readLine(); line != null; line = runs.readLine()) {
            String[] words = line.split("\t", -1);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            System.setIn(new ByteArrayInputStream(Base64.getDecoder().decode(words[0])));
            exitCode = null;
            int code = run(words[1], Arrays.copyOfRange(words, 2, words.length));
            System.out.flush();
            System.err.flush();
            answers.println(code + " " + out.size() + " " + err.size());
            out.writeTo(answers);
            err.writeTo(answers);
            answers.flush();
        }
    }

    private static int run(String tool, String[] arguments) throws Exception {
        try {
            Class<?> main = tool.endsWith(".java") ? ofSource(tool) : Class.forName(tool);
            main.getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) {
                System.err.println(thrown.getCause());
                return 1;
            }
        }
        return exitCode == null ? 0 : exitCode;
    }

    private static Class<?> ofSource(String source) throws Exception {
        if (!compiled.containsKey(source)) {
            Path classes = Files.createTempDirectory("tools");
            int failed = ToolProvider.getSystemJavaCompiler().run(
                null, null, System.err, "-d", classes.toString(),
                "-cp", System.getProperty("java.class.path"), source);
            if (failed != 0) {
                throw new IllegalArgumentException(source);
            }
            String name = new File(source).getName().replace(".java", "");
            URL[] where = {classes.toUri().toURL()};
            compiled.put(source, new URLClassLoader(where).loadClass(name));
        }
        return compiled.get(source);
    }
}
