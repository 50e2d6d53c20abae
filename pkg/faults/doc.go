// Package faults holds the tests that break what the programs stand on, while
// events flow, and then judge what became of each event. There is nothing here
// but tests.
//
//	go test ./pkg/faults                         a short part, in any run of the tests
//	HOOKONCE_FAULTS=all go test ./pkg/faults     every row, with one seed
//	HOOKONCE_FAULTS=full go test ./pkg/faults    every row, with three seeds, and six rows at the product's own
//	                                             times; writes FAULTS.md
//	HOOKONCE_SOAK=30m go test ./pkg/faults       a random mix for as long as asked
//
// All but the first want -timeout, of 30m or more: go test stops after 10 minutes.
// HOOKONCE_FAULT_SEED repeats a run's choices (several seeds with commas between
// them), HOOKONCE_FAULTS_OUT names a file for the table.
package faults
