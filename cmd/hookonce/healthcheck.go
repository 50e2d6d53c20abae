package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

// healthcheckCommand is for container health checks: an image without a shell
// has no curl either.
func healthcheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "healthcheck URL",
		Short: "Ask URL, and exit 0 if it answers 2xx within 3 s",
		Args:  operands(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			u, err := parseURL(args[0])
			if err != nil {
				return err
			}
			req, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, u.String(), nil)
			if err != nil {
				return err
			}
			client := http.Client{Timeout: 3 * time.Second}
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode/100 != 2 {
				return fmt.Errorf("%s answers %s", u.Redacted(), resp.Status)
			}
			return nil
		},
	}
}

// parseURL does not repeat what it cannot read, since that may hold a password.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return nil, errors.New("not an address such as http://127.0.0.1:8080")
	}
	return u, nil
}
