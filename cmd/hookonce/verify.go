package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
)

// What hookonce verify exits with if the signature is not good.
const (
	exitNotValid  = 1
	exitUnchecked = 2
)

// An exitError ends the program with a status of its own.
type exitError struct {
	status int
	err    error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// A verifying is what hookonce verify is asked for.
type verifying struct {
	source, provider      string
	secretEnv, secretFile []string
	webhookID, tolerance  string
	headers, body, url    string
	method, now, output   string
	sourceGiven           bool
}

func (c *console) verifyCommand() *cobra.Command {
	var v verifying
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check one signature, and say why it is refused and what to try",
		Long: "Check the signature of one delivery as ingest does, and say why it is refused and what to try.\n" +
			"The scheme and the secrets are those of a source in the sources file, or of a --provider with --secret-env or --secret-file.\n" +
			"It exits with 0 if the signature is valid, 1 if it is not, and 2 if it could not be checked. It never prints a secret.",
		Example: "  hookonce verify --source shop --headers headers.txt --body body.json\n" +
			"  hookonce verify --provider twilio --secret-env TWILIO_TOKEN --headers h.txt --body b.txt --url https://example.com/hook",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &exitError{exitUnchecked, fmt.Errorf("unknown argument %q", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			v.sourceGiven = cmd.Flags().Changed("source")
			return c.verify(cmd.InOrStdin(), v)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &exitError{exitUnchecked, err} })
	f := cmd.Flags()
	f.StringVar(&v.source, "source", source.DefaultName, "name of the source")
	f.StringVar(&v.provider, "provider", "", "instead of a source: the provider, with one of the next two")
	f.StringArrayVar(&v.secretEnv, "secret-env", nil, "environment variable that has the secret; may be repeated")
	f.StringArrayVar(&v.secretFile, "secret-file", nil, "file that has the secret, a newline at its end is cut; may be repeated")
	f.StringVar(&v.webhookID, "webhook-id", "", "what the provider calls this webhook, where that is signed")
	f.StringVar(&v.tolerance, "tolerance", "", "how far the timestamp may be off, such as 5m; 0 for no check (default: the provider's)")
	f.StringVar(&v.headers, "headers", "", "file of the headers, one \"Name: value\" a line; - is the standard input")
	f.StringVar(&v.body, "body", "", "file of the body, byte for byte; - is the standard input")
	f.StringVar(&v.url, "url", "", "URL that the provider called, where that is signed (default: public_url of the source)")
	f.StringVar(&v.method, "method", http.MethodPost, "method of the request, where that is signed")
	f.StringVar(&v.now, "now", "", "when it came, in Unix seconds (default: now)")
	f.StringVarP(&v.output, "output", "o", "text", "text or json")
	return cmd
}

// A verdict is what comes of it. Its fields are the JSON that is printed.
type verdict struct {
	Valid  bool     `json:"valid"`
	Secret int      `json:"secret,omitempty"` // which one it was, from 1
	Reason string   `json:"reason,omitempty"`
	Where  string   `json:"where,omitempty"`
	Advice []string `json:"advice,omitempty"`
}

func (c *console) verify(stdin io.Reader, v verifying) error {
	src, r, now, err := c.prepareVerify(stdin, v)
	if err != nil {
		return &exitError{exitUnchecked, err}
	}
	secret, err := src.Match(r, now)
	if err == nil {
		return c.printVerdict(v.output, verdict{Valid: true, Secret: secret + 1})
	}
	refused, ok := errors.AsType[*signature.Error](err)
	if !ok {
		return &exitError{exitUnchecked, err}
	}
	result := verdict{Reason: string(refused.Reason), Where: refused.Where, Advice: src.Verifier.Advice(r, now)}
	if err := c.printVerdict(v.output, result); err != nil {
		return &exitError{exitUnchecked, err}
	}
	status := exitNotValid
	if refused.Reason == signature.UnknownURL {
		status = exitUnchecked
	}
	return &exitError{status, fmt.Errorf("not valid: %s (%s)", refused.Reason, refused.Where)}
}

func (c *console) printVerdict(output string, v verdict) error {
	if output == "json" {
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		c.printf("%s\n", text)
		return nil
	}
	if v.Valid {
		c.printf("valid: signed with secret %d\n", v.Secret)
		return nil
	}
	c.printf("not valid: %s (%s)\n", v.Reason, v.Where)
	for _, line := range v.Advice {
		c.printf("- %s\n", line)
	}
	return nil
}

// prepareVerify reads all that the check needs.
func (c *console) prepareVerify(stdin io.Reader, v verifying) (src source.Source, r signature.Request, now time.Time, err error) {
	if v.output != "text" && v.output != "json" {
		return src, r, now, errors.New("--output: want text or json")
	}
	if now, err = parseNow(v.now); err != nil {
		return src, r, now, err
	}
	if src, err = c.verifySource(v); err != nil {
		return src, r, now, err
	}
	if src.Verifier == nil {
		return src, r, now, fmt.Errorf("source %s has verify: none: there is nothing to check", src.Name)
	}
	if r, err = v.request(stdin, src); err != nil {
		return src, r, now, err
	}
	return src, r, now, nil
}

func parseNow(text string) (time.Time, error) {
	if text == "" {
		return time.Now(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, errors.New("--now: want Unix seconds, such as 1700000000")
	}
	return time.Unix(seconds, 0), nil
}

// verifySource finds the source, or makes one of the provider.
func (c *console) verifySource(v verifying) (source.Source, error) {
	if v.provider == "" {
		if len(v.secretEnv)+len(v.secretFile) > 0 || v.webhookID+v.tolerance != "" {
			return source.Source{}, errors.New("--secret-env, --secret-file, --webhook-id and --tolerance need --provider: the sources file says them of a source")
		}
		return c.findSource(v.source)
	}
	if v.sourceGiven {
		return source.Source{}, errors.New("--source and --provider: want one of the two")
	}
	preset, err := findPreset(v.provider)
	if err != nil {
		return source.Source{}, err
	}
	preset.Scheme.WebhookID = v.webhookID
	if v.tolerance != "" {
		d, err := time.ParseDuration(v.tolerance)
		if err != nil || d < 0 || d%time.Second != 0 {
			return source.Source{}, errors.New("--tolerance: want whole seconds, such as 5m, or 0")
		}
		preset.Scheme.SetTolerance(d)
	}
	secrets, err := c.verifySecrets(v)
	if err != nil {
		return source.Source{}, err
	}
	src := preset.Source(v.provider)
	src.Verifier, err = preset.Scheme.Verifier(secrets)
	return src, err
}

func (c *console) verifySecrets(v verifying) ([]string, error) {
	var secrets []string
	for _, name := range v.secretEnv {
		value, set := c.lookup(name) // as it is: white space may be what is wrong
		if !set {
			return nil, fmt.Errorf("--secret-env: the environment variable %s is not set", name)
		}
		secrets = append(secrets, value)
	}
	for _, name := range v.secretFile {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("--secret-file: %w", err)
		}
		secrets = append(secrets, strings.TrimRight(string(text), "\r\n"))
	}
	if len(secrets) == 0 {
		return nil, errors.New("--provider needs --secret-env or --secret-file")
	}
	return secrets, nil
}

// request reads the delivery.
func (v verifying) request(stdin io.Reader, src source.Source) (r signature.Request, err error) {
	if v.headers == "" || v.body == "" || v.headers == "-" && v.body == "-" {
		return r, errors.New("want --headers FILE and --body FILE, of which one may be -")
	}
	head, err := readInput(stdin, v.headers)
	if err != nil {
		return r, fmt.Errorf("--headers: %w", err)
	}
	r.Method = v.method
	if r.Header, err = parseHeaders(head); err != nil {
		return r, fmt.Errorf("--headers: %w", err)
	}
	if r.Body, err = readInput(stdin, v.body); err != nil {
		return r, fmt.Errorf("--body: %w", err)
	}
	if encoding := strings.ToLower(r.Header.Get("Content-Encoding")); src.Gzip == source.GzipPlain && (encoding == "gzip" || encoding == "x-gzip") {
		if r.Body, err = inflate(r.Body, src.MaxBody); err != nil {
			return r, fmt.Errorf("--body: %w", err)
		}
	}
	if r.URL = v.url; r.URL == "" {
		r.URL = src.PublicURL
	}
	return r, nil
}

func readInput(stdin io.Reader, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(name)
}

// inflate returns what is in a compressed body that its provider signed plain.
// One that is plain already stays.
func inflate(body []byte, limit int64) ([]byte, error) {
	from, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return body, nil //nolint:nilerr // it was saved as it was signed
	}
	plain, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err == nil && int64(len(plain)) > limit {
		err = fmt.Errorf("what is compressed in it is larger than max_body, which is %d bytes", limit)
	}
	return plain, err
}

// parseHeaders reads lines "Name: value" as an HTTP server does: names in
// canonical form, white space around values cut, repeated names kept.
func parseHeaders(text []byte) (http.Header, error) {
	h := http.Header{}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line = bytes.TrimRight(line, "\r\n")
		if len(bytes.TrimSpace(line)) == 0 || n == 1 && isRequestLine(line) {
			continue
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || len(name) == 0 || bytes.ContainsAny(name, " \t\"(),/;<=>?@[\\]{}") {
			return nil, fmt.Errorf("line %d is not \"Name: value\"", n)
		}
		h.Add(string(name), string(bytes.Trim(value, " \t")))
	}
	return h, nil
}

func isRequestLine(line []byte) bool {
	parts := bytes.Split(line, []byte(" "))
	return len(parts) == 3 && bytes.HasPrefix(parts[2], []byte("HTTP/"))
}
