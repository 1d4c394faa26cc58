// Package checks prints one JSON line per check: what it saw, or what went wrong.
package checks

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Patience is how long a check waits for what must come.
const Patience = 60 * time.Second

// Seen is what a check reports.
type Seen map[string]any

// Check does something with the client.
type Check func() (any, error)

// Named is a check and its name.
type Named struct {
	Name string
	Run  Check
}

// Run makes the checks one after the other.
func Run(all []Named) {
	for _, one := range all {
		report(one)
	}
}

func report(one Named) {
	line := Seen{"check": one.Name}
	got, err := one.Run()
	if err != nil {
		line["error"] = err.Error()
	} else {
		line["got"] = got
	}
	say(line)
}

func say(line Seen) {
	text, err := json.Marshal(line)
	if err != nil {
		text, _ = json.Marshal(Seen{"check": line["check"], "error": err.Error()})
	}
	fmt.Println(string(text))
}

// Restart asks for the server to be killed and started again, and waits until it is.
func Restart() error {
	say(Seen{"ask": "restart"})
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err == nil && line != "restarted\n" {
		err = fmt.Errorf("instead of restarting: %q", line)
	}
	return err
}

// Body is `size` octets that are easy to tell from others.
func Body(size int) []byte {
	body := make([]byte, size)
	for at := range body {
		body[at] = byte(at % 251)
	}
	return body
}
