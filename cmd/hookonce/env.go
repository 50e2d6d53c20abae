package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// devEnvFile is where hookonce dev writes its addresses, and where the other
// commands look when the environment names none.
var devEnvFile = filepath.Join(".hookonce", "dev.env")

// lookup returns a variable of the environment as it is.
func (c *console) lookup(name string) (value string, set bool) {
	for _, kv := range c.environ {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// getenv returns a variable of the environment without white space around it.
func (c *console) getenv(name string) string {
	value, _ := c.lookup(name)
	return strings.TrimSpace(value)
}

// setting returns a variable of the environment, or else of the running
// hookonce dev, which it says aloud.
func (c *console) setting(name string) (string, error) {
	if value := c.getenv(name); value != "" {
		return value, nil
	}
	data, err := os.ReadFile(devEnvFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			fmt.Fprintf(c.stderr, "using %s of %s\n", name, devEnvFile)
			return value, nil
		}
	}
	return "", fmt.Errorf("%s is not set, and no hookonce dev runs here: set it, or start hookonce dev", name)
}

// with returns the environment with some variables set anew.
func with(environ []string, set map[string]string) []string {
	var out []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if _, anew := set[name]; !anew {
			out = append(out, kv)
		}
	}
	for name, value := range set {
		out = append(out, name+"="+value)
	}
	return out
}
