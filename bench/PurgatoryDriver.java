import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.DelayQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.server.purgatory.DelayedOperation;
import org.apache.kafka.server.purgatory.DelayedOperationKey;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;

/**
 * The purgatory load of bench_timing.py on Apache Kafka's own purgatory: requests that each watch 3 of 100 keys for
 * at most 200 ms, entered flat out by one thread; a second one completes those whose log-normal completion time comes
 * before that. Arguments: requests, median and third quartile of the completion time in ms, repetitions. Prints, for
 * each repetition, CPU microseconds of the whole process per request, and requests entered per second.
 */
public class PurgatoryDriver {
    static final int TIMEOUT_MS = 200;
    static final int KEYS = 100;
    static final int POOL = 1 << 16;

    record Key(int number) implements DelayedOperationKey {
        public String keyLabel() {
            return "key-" + number;
        }
    }

    static final class Request extends DelayedOperation implements Delayed {
        final long completesAtNs;
        final CountDownLatch open;

        Request(long completionMs, CountDownLatch open) {
            super(TIMEOUT_MS);
            this.completesAtNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(completionMs);
            this.open = open;
        }

        @Override
        public boolean tryComplete() {
            return System.nanoTime() >= completesAtNs && forceComplete();
        }

        @Override
        public void onComplete() {
            open.countDown();
        }

        @Override
        public void onExpiration() {
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return unit.convert(completesAtNs - System.nanoTime(), TimeUnit.NANOSECONDS);
        }

        @Override
        public int compareTo(Delayed other) {
            return Long.compare(completesAtNs, ((Request) other).completesAtNs);
        }
    }

    static long[] completionTimes(double p50, double p75) {
        Random random = new Random(7);
        double mu = Math.log(p50);
        double sigma = (Math.log(p75) - mu) / 0.6745;
        long[] times = new long[POOL];
        for (int i = 0; i < POOL; i++)
            times[i] = Math.max(1, Math.round(Math.exp(mu + sigma * random.nextGaussian())));
        return times;
    }

    static List<List<Key>> keyTriples() {
        Random random = new Random(11);
        List<Key> keys = new ArrayList<>();
        for (int i = 0; i < KEYS; i++)
            keys.add(new Key(i));
        List<List<Key>> triples = new ArrayList<>(POOL);
        for (int i = 0; i < POOL; i++)
            triples.add(List.of(keys.get(random.nextInt(KEYS)), keys.get(random.nextInt(KEYS)),
                keys.get(random.nextInt(KEYS))));
        return triples;
    }

    static Thread completer(DelayQueue<Request> queue, CountDownLatch open) {
        Thread thread = new Thread(() -> {
            try {
                while (open.getCount() > 0) {
                    Request request = queue.poll(50, TimeUnit.MILLISECONDS);
                    if (request != null)
                        request.forceComplete();
                }
            } catch (InterruptedException stop) {
                Thread.currentThread().interrupt();
            }
        });
        thread.start();
        return thread;
    }

    public static void main(String[] arguments) throws Exception {
        int requests = Integer.parseInt(arguments[0]);
        long[] times = completionTimes(Double.parseDouble(arguments[1]), Double.parseDouble(arguments[2]));
        List<List<Key>> triples = keyTriples();
        var process = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        for (int repetition = 0; repetition < Integer.parseInt(arguments[3]); repetition++) {
            var purgatory = new DelayedOperationPurgatory<Request>("bench", 0, 1000);
            DelayQueue<Request> queue = new DelayQueue<>();
            CountDownLatch open = new CountDownLatch(requests);
            Thread completer = completer(queue, open);
            long cpu = process.getProcessCpuTime();
            long start = System.nanoTime();
            for (int i = 0; i < requests; i++) {
                long completionMs = times[i & (POOL - 1)];
                Request request = new Request(completionMs, open);
                if (completionMs < TIMEOUT_MS)
                    queue.add(request);
                purgatory.tryCompleteElseWatch(request, triples.get(i & (POOL - 1)));
            }
            double enteringS = (System.nanoTime() - start) / 1e9;
            if (!open.await(30, TimeUnit.SECONDS))
                throw new IllegalStateException(open.getCount() + " requests never completed");
            double cpuUs = (process.getProcessCpuTime() - cpu) / 1e3 / requests;
            completer.join();
            purgatory.shutdown();
            System.out.printf("{\"cpu_us\": %.4f, \"per_second\": %.0f}%n", cpuUs, requests / enteringS);
        }
        System.exit(0);
    }
}
