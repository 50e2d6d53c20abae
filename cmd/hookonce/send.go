package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
)

// A sending is what hookonce send is asked for.
type sending struct {
	url, publicURL, source, provider string
	secretEnv, privateKey, newKey    string
	webhookID                        string
	file, id, typ                    string
	amount                           int64
	copies                           int
	parallel                         bool
}

func (c *console) sendCommand() *cobra.Command {
	var s sending
	cmd := &cobra.Command{
		Use:   "send",
		Short: "Sign an event as its provider would, and post it to ingest",
		Long: "Sign an event as its provider would, and post it to ingest: a body from a file, or one made up.\n" +
			"The secret is the first one that the sources file has for the source. With --provider no sources file\n" +
			"is needed: the secret is in an environment variable, or the private key in a file.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.newKey != "" {
				return c.newPrivateKey(s)
			}
			return c.send(cmd.Context(), s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.url, "url", "", "address of ingest, without /webhooks (default INGEST_URL)")
	f.StringVar(&s.publicURL, "public-url", "", "what the provider calls, where it signs that (default: where it is posted)")
	f.StringVar(&s.source, "source", "", "name of the source (default: the provider, or "+source.DefaultName+")")
	f.StringVar(&s.provider, "provider", "", "sign as this provider of PROVIDERS.md, without a sources file")
	f.StringVar(&s.secretEnv, "secret-env", "", "environment variable with the secret of --provider (default such as GITHUB_SECRET)")
	f.StringVar(&s.privateKey, "private-key", "", "file with the private key of --provider, for those with public keys: PEM, or whsk_")
	f.StringVar(&s.webhookID, "webhook-id", "", "what --provider calls the webhook, if it signs that (PayPal)")
	f.StringVar(&s.newKey, "new-private-key", "", "make a private key for --provider in this file, print what to put into secrets, and send nothing")
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
	s.source = cmp.Or(s.source, s.provider, source.DefaultName)
	from, err := c.sender(s)
	if err != nil {
		return err
	}
	if s.url == "" {
		if s.url, err = c.setting("INGEST_URL"); err != nil {
			return err
		}
	}
	address, err := parseURL(s.url)
	if err != nil {
		return fmt.Errorf("INGEST_URL: %w", err)
	}
	if strings.Contains(address.Path+"/", "/webhooks/") {
		return fmt.Errorf("%s: want the address of ingest, without /webhooks: --source or --provider says the rest", address.Redacted())
	}
	address = address.JoinPath("webhooks", s.source)
	s.id = cmp.Or(s.id, "evt_"+rand.Text())
	r, err := s.delivery(from.source)
	if err != nil {
		return err
	}
	r.URL = cmp.Or(s.publicURL, address.String())
	if r, err = from.sign(r, s.id); err != nil {
		return fmt.Errorf("it cannot be signed: %w", err)
	}
	if signed, err := url.Parse(r.URL); err == nil { // with what belongs into the query
		address.RawQuery = signed.RawQuery
	}
	return c.deliverAll(ctx, s, address.String(), r)
}

// delivery is what is posted, not signed yet: a file, or made up.
func (s sending) delivery(src source.Source) (signature.Request, error) {
	values := map[string]any{}
	for _, n := range src.Integers {
		values[n.At.String()] = time.Now().Unix()
	}
	for _, rule := range src.Handlers {
		if rule.Handler == "payments" {
			values[rule.Amount.String()] = s.amount
		}
	}
	h, body, err := src.Sample(s.id, s.typ, values)
	if err != nil {
		return signature.Request{}, err
	}
	r := signature.Request{Method: http.MethodPost, Header: h, Body: body}
	switch s.file {
	case "":
		return r, nil
	case "-":
		r.Body, err = io.ReadAll(os.Stdin)
	default:
		r.Body, err = os.ReadFile(s.file)
	}
	var contentType string
	contentType, r.Body = src.Fit(r.Body)
	r.Header.Set("Content-Type", contentType)
	return r, err
}

// deliverAll posts all copies and prints each answer. It fails if one was not
// a 2xx.
func (c *console) deliverAll(ctx context.Context, s sending, address string, r signature.Request) error {
	results := make([]error, s.copies)
	deliver := func(i int) { results[i] = c.deliver(ctx, address, r) }
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

func (c *console) deliver(ctx context.Context, address string, r signature.Request) error {
	req, err := http.NewRequestWithContext(ctx, r.Method, address, bytes.NewReader(r.Body))
	if err != nil {
		return err
	}
	req.Header = r.Header.Clone()
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
