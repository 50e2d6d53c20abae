package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/pkg/config"
	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
)

// A sending is what hookonce send is asked for.
type sending struct {
	url, source, file, id, typ string
	amount                     int64
	copies                     int
	parallel                   bool
}

func (c *console) sendCommand() *cobra.Command {
	var s sending
	cmd := &cobra.Command{
		Use:   "send",
		Short: "Sign an event as its provider would, and post it to ingest",
		Long: "Sign an event as its provider would, and post it to ingest: a body from a file, or one made up.\n" +
			"The secret is the first one that the sources file has for the source.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.send(cmd.Context(), s) },
	}
	f := cmd.Flags()
	f.StringVar(&s.url, "url", "", "address of ingest, without /webhooks (default INGEST_URL)")
	f.StringVar(&s.source, "source", source.DefaultName, "name of the source")
	f.StringVar(&s.file, "file", "", "post this file; - is the standard input")
	f.StringVar(&s.id, "id", "", "id of the event, where a header has it or the body is made up (default: a new one)")
	f.StringVar(&s.typ, "type", "payment.succeeded", "type of the event, likewise")
	f.Int64Var(&s.amount, "amount", 4200, "amount in a body that is made up, in minor units")
	f.IntVar(&s.copies, "copies", 1, "deliver the same event so many times")
	f.BoolVar(&s.parallel, "parallel", false, "deliver all copies at once")
	return cmd
}

func (c *console) send(ctx context.Context, s sending) error {
	if s.copies < 1 {
		return errors.New("--copies must be positive")
	}
	src, err := c.findSource(s.source)
	if err != nil {
		return err
	}
	if s.url == "" {
		if s.url, err = c.setting("INGEST_URL"); err != nil {
			return err
		}
	}
	s.id = cmp.Or(s.id, "evt_"+rand.Text())
	body, err := s.body(src)
	if err != nil {
		return err
	}
	h, err := s.header(src, body)
	if err != nil {
		return err
	}
	return c.deliverAll(ctx, s, h, body)
}

// findSource reads the source as ingest does, so what it signs is what ingest
// checks.
func (c *console) findSource(name string) (source.Source, error) {
	environ := c.environ
	if file, err := c.setting("HOOKONCE_CONFIG"); err == nil {
		environ = with(environ, map[string]string{"HOOKONCE_CONFIG": file})
	}
	sources, err := config.ReadSources(environ)
	if err != nil {
		return source.Source{}, err
	}
	var names []string
	for _, src := range sources {
		if src.Name == name {
			return src, nil
		}
		names = append(names, src.Name)
	}
	return source.Source{}, fmt.Errorf("no source %s in the sources file: it has %s", name, strings.Join(names, ", "))
}

func (s sending) body(src source.Source) ([]byte, error) {
	switch s.file {
	case "":
		return s.madeUp(src)
	case "-":
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(s.file)
}

// madeUp is a body with all that the source wants in it.
func (s sending) madeUp(src source.Source) ([]byte, error) {
	doc := map[string]any{"sent_as": s.id} // or two of them would be the same bytes, and the second a replay
	put := func(l source.Locator, value any) {
		if l.Header == "" {
			putAt(doc, l.JSON.String(), value)
		}
	}
	for _, l := range src.ID {
		put(l, s.id)
	}
	put(src.Type[0], s.typ)
	for _, n := range src.Integers {
		put(source.Locator{JSON: n.At}, time.Now().Unix())
	}
	for _, rule := range src.Handlers {
		if rule.Handler == "payments" {
			put(source.Locator{JSON: rule.Amount}, s.amount)
		}
	}
	return json.Marshal(doc)
}

// putAt makes the objects on the way to a JSON Pointer.
func putAt(doc map[string]any, pointer string, value any) {
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	keys := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for _, key := range keys[:len(keys)-1] {
		next, ok := doc[unescape.Replace(key)].(map[string]any)
		if !ok {
			next = map[string]any{}
			doc[unescape.Replace(key)] = next
		}
		doc = next
	}
	doc[unescape.Replace(keys[len(keys)-1])] = value
}

// header is what the provider sends along.
func (s sending) header(src source.Source, body []byte) (http.Header, error) {
	h := http.Header{}
	if src.Verifier != nil {
		r, err := src.Verifier.Sign(signature.Request{Method: http.MethodPost, Body: body}, s.id, time.Now())
		if err != nil {
			return nil, err
		}
		h = r.Header
	}
	h.Set("Content-Type", "application/json")
	for _, l := range src.ID {
		if l.Header != "" {
			h.Set(l.Header, s.id)
		}
	}
	if src.Type[0].Header != "" {
		h.Set(src.Type[0].Header, s.typ)
	}
	return h, nil
}

// deliverAll posts all copies and prints each answer. It fails if one was not
// a 2xx.
func (c *console) deliverAll(ctx context.Context, s sending, h http.Header, body []byte) error {
	results := make([]error, s.copies)
	deliver := func(i int) { results[i] = c.deliver(ctx, s, h, body) }
	var wg sync.WaitGroup
	for i := range s.copies {
		if s.parallel {
			wg.Go(func() { deliver(i) })
		} else {
			deliver(i)
		}
	}
	wg.Wait()
	failed := len(slices.DeleteFunc(results, func(err error) bool { return err == nil }))
	if failed > 0 {
		return fmt.Errorf("%d of %d deliveries were not accepted: %w", failed, s.copies, results[0])
	}
	return nil
}

func (c *console) deliver(ctx context.Context, s sending, h http.Header, body []byte) error {
	u, err := parseURL(s.url)
	if err != nil {
		return fmt.Errorf("INGEST_URL: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.JoinPath("webhooks", s.source).String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = h.Clone()
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return err
	}
	c.printf("%d %s\n", resp.StatusCode, bytes.TrimSpace(answer))
	if resp.StatusCode/100 != 2 {
		return errors.New(resp.Status)
	}
	return nil
}
