// Command ingest receives webhooks and puts them on the queue.
// Its settings are environment variables: ingest -h lists them.
package main

import "github.com/hookonce/hookonce/pkg/program"

func main() { program.Main("ingest", program.Ingest) }
