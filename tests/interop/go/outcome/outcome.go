// Package outcome prints what the calls of a client came to, one JSON object a line.
//
// Two brokers that behave alike give the same lines: what is another one in each run (addresses,
// ids, times, texts for people) is left out or replaced, and lists of structs are sorted, since
// clients keep many of them in maps.
package outcome

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"sort"
	"time"
)

const (
	patience = 20 * time.Second
	pause    = 50 * time.Millisecond
)

// Name returns what an error is printed as; "" is no error. A client sets it to the names of
// Kafka's error codes.
var Name = func(err error) string { return "" }

var (
	out     = bufio.NewWriter(os.Stdout)
	address = regexp.MustCompile(`(127\.0\.0\.1|localhost):\d+`)
	anError = reflect.TypeFor[error]()
	aTime   = reflect.TypeFor[time.Time]()
	leftOut = map[string]bool{}
	uuid    = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	texts   = map[string]bool{
		"ErrMessage": true, "ErrMsg": true, "ErrorMessage": true, "ErrorMsg": true,
		"Documentation": true,
	}
	volatile = []string{
		"Throttle", "ThrottleMillis", "ThrottleTimeMs", "ThrottleTime", "Host", "Port", "Rack",
		"Cluster", "ClusterID", "MemberID", "MemberId", "ClientHost", "ProducerID", "StartTimestamp",
		"LastTimestamp", "LogAppendTime", "Dir", "Path", "TotalBytes", "UsableBytes",
	}
)

func init() {
	for _, name := range volatile {
		leftOut[name] = true
	}
}

// Of returns a function that prints the result of a call: Of("list topics")(client.ListTopics()).
func Of(call string) func(value any, err error) {
	return func(value any, err error) {
		if err != nil {
			Print(call, map[string]any{"error": errorText(err)})
			return
		}
		Print(call, value)
	}
}

// OfError prints the outcome of a call that returns nothing but an error.
func OfError(call string, err error) {
	Of(call)("done", err)
}

// Until asks again until the answer holds, for what a broker learns a moment after it was decided.
// Then, or when patience ends, it prints the last answer.
func Until[T any](call string, holds func(T) bool, ask func() (T, error)) {
	value, err := ask()
	for end := time.Now().Add(patience); time.Now().Before(end) && (err != nil || !holds(value)); {
		time.Sleep(pause)
		value, err = ask()
	}
	Of(call)(value, err)
}

// Print prints a value. The output is complete after each line, so that a program that hangs shows
// where.
func Print(call string, value any) {
	line, err := json.Marshal(map[string]any{"call": call, "outcome": plain(reflect.ValueOf(value))})
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(out, string(line))
	out.Flush()
}

func errorText(err error) string {
	if name := Name(err); name != "" {
		return name
	}
	return address.ReplaceAllString(err.Error(), "<address>")
}

// plain returns a value as maps, lists and scalars.
func plain(value reflect.Value) any {
	if !value.IsValid() {
		return nil
	}
	if value.Type().Implements(anError) {
		return plainError(value)
	}
	switch value.Kind() {
	case reflect.Interface, reflect.Pointer:
		return plain(value.Elem())
	case reflect.Struct:
		return plainStruct(value)
	case reflect.Map:
		found := map[string]any{}
		for each := value.MapRange(); each.Next(); {
			found[fmt.Sprint(plain(each.Key()))] = plain(each.Value())
		}
		return found
	case reflect.Slice:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			return string(value.Bytes())
		}
		return plainList(value)
	case reflect.Array:
		if value.IsZero() {
			return "<no id>"
		}
		return "<id>"
	case reflect.String:
		return uuid.ReplaceAllString(value.String(), "<uuid>")
	default:
		return value.Interface()
	}
}

func plainError(value reflect.Value) any {
	if kind := value.Kind(); (kind == reflect.Interface || kind == reflect.Pointer) && value.IsNil() {
		return nil
	}
	if text := errorText(value.Interface().(error)); text != NoError {
		return text
	}
	return nil
}

// NoError is what Name returns for an error code that says that there was no error.
const NoError = "NONE"

func plainStruct(value reflect.Value) any {
	if value.Type() == aTime {
		if value.Interface().(time.Time).IsZero() {
			return "<no time>"
		}
		return "<time>"
	}
	found := map[string]any{}
	for index := range value.NumField() {
		field := value.Type().Field(index)
		if !field.IsExported() || leftOut[field.Name] {
			continue
		}
		inner := plain(value.Field(index))
		if text, is := inner.(string); is && texts[field.Name] && text != "" {
			inner = "<text>"
		}
		found[field.Name] = inner
	}
	return found
}

func plainList(value reflect.Value) any {
	found := make([]any, value.Len())
	scalars := true
	for index := range found {
		found[index] = plain(value.Index(index))
		_, isMap := found[index].(map[string]any)
		scalars = scalars && !isMap
	}
	if !scalars {
		sort.Slice(found, func(a, b int) bool { return sortKey(found[a]) < sortKey(found[b]) })
	}
	return found
}

func sortKey(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}
