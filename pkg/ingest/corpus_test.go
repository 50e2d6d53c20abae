package ingest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// corpus returns real payloads of a provider, by file. They are not part of the
// project: HOOKONCE_SHARED, or a folder shared beside this repository, has them.
func corpus(t *testing.T, provider string) map[string][]byte {
	t.Helper()
	shared := os.Getenv("HOOKONCE_SHARED")
	if shared == "" {
		shared = filepath.Join(repository(t), "..", "shared")
	}
	folder := filepath.Join(shared, "corpus", provider)
	entries, err := os.ReadDir(folder)
	if os.IsNotExist(err) && os.Getenv("HOOKONCE_SHARED") == "" {
		t.Skipf("no payloads in %s: set HOOKONCE_SHARED to the folder that has them", folder)
	}
	files := map[string][]byte{}
	for _, e := range entries {
		body, readErr := os.ReadFile(filepath.Join(folder, e.Name()))
		if readErr != nil {
			t.Fatal(readErr)
		}
		files[e.Name()] = body
	}
	if err != nil || len(files) == 0 {
		t.Fatalf("%d payloads in %s, %v", len(files), folder, err)
	}
	return files
}

// repository returns the folder with go.mod.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above this folder")
		}
		dir = filepath.Dir(dir)
	}
}

func TestCorpusGitHub(t *testing.T) {
	t.Parallel()
	n := 0
	for name, body := range corpus(t, "github") {
		n++
		id, event := fmt.Sprintf("72d3162e-cc78-11e3-81ab-%012d", n), strings.Split(name, "__")[0]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := toGitHub(t, string(body))
			d.header.Set("X-GitHub-Delivery", id)
			d.header.Set("X-GitHub-Event", event)
			var fields struct{ Action string }
			if err := json.Unmarshal(body, &fields); err != nil {
				t.Fatal(err)
			}
			want := strings.TrimSuffix(event+"."+fields.Action, ".")
			if ev := checkHeld(t, d, id); ev.Type != want || ev.Headers["X-GitHub-Event"] != event {
				t.Errorf("type = %q, headers = %q, want %q", ev.Type, ev.Headers, want)
			}
		})
	}
}

func TestCorpusStripe(t *testing.T) {
	t.Parallel()
	n := 0
	for name, body := range corpus(t, "stripe") {
		n++
		id := fmt.Sprintf("evt_corpus%d", n)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var fields struct{ ID, Type string }
			if err := json.Unmarshal(body, &fields); err != nil {
				t.Fatal(err)
			}
			body := bytes.ReplaceAll(body, []byte(`"`+fields.ID+`"`), []byte(`"`+id+`"`)) // some share one
			if ev := checkHeld(t, toStripe(t, string(body), noon), id); ev.Type != fields.Type || ev.Type == "" {
				t.Errorf("type = %q, want %q", ev.Type, fields.Type)
			}
		})
	}
}
