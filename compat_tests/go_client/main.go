// The stock Go client under remote control: `compat listen PORT` answers requests on a TCP port, a line each, as the Java
// program beside does (compat_tests/java_client, which describes verbs, options and answers). Only what the Go client can
// say is here.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type answer map[string]interface{}

type verb func(o options, a answer) error

var verbs = map[string]verb{}

var stopped sync.Map

// options are those of one request; values are percent-encoded on the line.
type options map[string]string

func (o options) text(key string) string {
	value, known := o[key]
	if !known {
		panic(fmt.Sprintf("%s= is missing", key))
	}
	return value
}

func (o options) has(key string) bool {
	_, known := o[key]
	return known
}

func (o options) number(key string, otherwise int) int {
	value, known := o[key]
	if !known {
		return otherwise
	}
	number, err := strconv.Atoi(value)
	if err != nil {
		panic(err)
	}
	return number
}

func (o options) end() time.Time {
	return time.Now().Add(time.Duration(o.number("timeout_s", 60)) * time.Second)
}

// ended says whether "stop" has been said to the verb, or its time is over.
func (o options) ended(end time.Time) bool {
	if o.has("until") {
		if _, said := stopped.Load(o.text("until")); said {
			return true
		}
	}
	return time.Now().After(end)
}

func respond(line string) (a answer) {
	a = answer{}
	defer func() {
		if failure := recover(); failure != nil {
			a["ok"], a["error"] = false, fmt.Sprint(failure)
		}
	}()
	words := strings.Fields(line)
	o := options{}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		decoded, err := url.PathUnescape(value)
		if err != nil {
			panic(err)
		}
		o[key] = decoded
	}
	run, known := verbs[words[0]]
	if !known {
		panic("unknown verb " + words[0])
	}
	a["verb"] = words[0]
	if err := run(o, a); err != nil {
		a["ok"], a["error"] = false, err.Error()
		return a
	}
	a["ok"] = true
	return a
}

func serve(connection net.Conn) {
	defer connection.Close()
	lines := bufio.NewScanner(connection)
	for lines.Scan() {
		text, err := json.Marshal(respond(lines.Text()))
		if err != nil {
			panic(err)
		}
		if _, err = connection.Write(append(text, '\n')); err != nil {
			return
		}
	}
}

func main() {
	if len(os.Args) != 3 || os.Args[1] != "listen" {
		fmt.Fprintln(os.Stderr, "usage: listen PORT")
		os.Exit(2)
	}
	rlog.SetLogLevel("error")
	verbs["stop"] = func(o options, a answer) error {
		stopped.Store(o.text("name"), true)
		return nil
	}
	listener, err := net.Listen("tcp", ":"+os.Args[2])
	if err != nil {
		panic(err)
	}
	fmt.Println("ready")
	for {
		connection, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		go serve(connection)
	}
}
