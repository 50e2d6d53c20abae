package signature_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"go/build"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// bodyOf returns the body of a vector: as it is written there, or out of the
// file that it names, of which a copy may be in the corpus or, if somebody
// downloaded that module, in the module cache.
func bodyOf(t *testing.T, vec vector, bodies map[string]string) (body []byte, found bool) {
	t.Helper()
	switch {
	case vec.BodyRef != nil:
		ref := vec.BodyRef
		files := append(moduleFiles(ref.Repo, ref.Path), bodies[ref.Repo+" "+ref.Path])
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			for _, body := range append(backquoted.FindAllSubmatch(text, -1), [][]byte{nil, text}) {
				if sum := sha256.Sum256(body[1]); hex.EncodeToString(sum[:]) == ref.SHA256 {
					return body[1], true
				}
			}
		}
		return nil, false
	case vec.BodyBase64 != "":
		body, err := base64.StdEncoding.DecodeString(vec.BodyBase64)
		if err != nil {
			t.Fatal(err)
		}
		return body, true
	}
	return []byte(vec.Body), true
}

var backquoted = regexp.MustCompile("`([^`]*)`")

// moduleFiles returns the copies of a file in the module cache.
func moduleFiles(repo, path string) []string {
	cache := os.Getenv("GOMODCACHE")
	if cache == "" {
		cache = filepath.Join(build.Default.GOPATH, "pkg", "mod")
	}
	var files []string
	for _, module := range []string{"@*", "/v[0-9]*@*"} {
		found, err := filepath.Glob(filepath.Join(cache, "github.com", filepath.FromSlash(repo+module), filepath.FromSlash(path)))
		if err == nil {
			files = append(files, found...)
		}
	}
	return files
}

// readManifest returns the corpus's files by repository and path.
func readManifest(t *testing.T, dir string) map[string]string {
	t.Helper()
	var entries []struct{ File, Repo, Path string }
	readJSON(t, filepath.Join(dir, "corpus", "manifest.json"), &entries)
	files := map[string]string{}
	for _, e := range entries {
		files[e.Repo+" "+e.Path] = filepath.Join(dir, "corpus", filepath.FromSlash(e.File))
	}
	return files
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// sharedFolder returns the folder of the recorded deliveries: HOOKONCE_SHARED,
// or "shared" beside the repository. A user's checkout has none.
func sharedFolder(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("HOOKONCE_SHARED"); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != filepath.Dir(dir) {
		parent := filepath.Dir(dir)
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			if shared := filepath.Join(parent, "shared"); isFolder(filepath.Join(shared, "vectors")) {
				return shared
			}
			break
		}
		dir = parent
	}
	t.Skip("no recorded deliveries: HOOKONCE_SHARED is not set and no shared/vectors beside the repository")
	return ""
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
