// Command worker runs the handlers of queued events.
// Its settings are environment variables: worker -h lists them.
package main

import "github.com/hookonce/hookonce/pkg/program"

func main() { program.Main("worker", program.Worker) }
