package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// healthcheckCommand is for container health checks: an image without a shell
// has no curl either.
func healthcheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "healthcheck URL",
		Short: "Ask URL, and exit 0 if it answers 2xx within 3 s",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, args[0], nil)
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
				return fmt.Errorf("%s answers %s", args[0], resp.Status)
			}
			return nil
		},
	}
}
