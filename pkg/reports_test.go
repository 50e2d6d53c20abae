package pkg_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reports says, for each of the public reports A01 to A50 of people whose
// receivers lost or doubled events, which test shows that ours does not: a test
// as "package.Test", a row of the fault suite as "row 29", or in words why there
// is nothing to show.
var reports = map[string][]string{
	"A01": {"program.TestCopies", "queue.TestEnqueueRace", "postgres.TestInsertRaces"},             // look, then insert
	"A02": {"program.TestCopies"},                                                                  // the loser of a race gets an error
	"A03": {"program.TestCopies", "row 6", "row 7"},                                                // memory of one process
	"A04": {"program.TestCopies", "ingest.TestReplay", "ingest.TestReplayOff"},                     // five copies in 4 ms; two ids for one body
	"A05": {"ingest.TestReplayOfWhatWasNotHeld", "queue.TestEnqueueLostAnswer", "row 6", "row 26"}, // a marker before the hand-over
	"A06": {"sweeper.TestSweepForReal", "row 25"},                                                  // row committed, enqueue fails
	"A07": {"postgres.TestOverdueDoubles", "queue.TestTasksThatWait", "worker.TestManyWorkers"},    // a sweep cannot tell lost from waiting
	"A08": {"ingest.TestCatalogueQueueDown", "queue.TestEnqueueNoRedis"},                           // 200 though the queue failed
	"A09": {"worker.TestBudget", "worker.TestLockUnavailable"},                                     // the retry is dropped as a duplicate
	"A10": {"program.TestKilledWorker", "postgres.TestAttemptOvertaken", "row 9"},                  // a claim left behind
	"A11": {"worker.TestLost", "postgres.TestClaimTable"},                                          // a claim that lives as long as a result
	"A12": {"postgres.TestClaimTable"},                                                             // a dead worker's row counts as in flight
	"A13": {"postgres.TestOverdueChooses", "postgres.TestBuryRace", "row 60"},                      // a sweep drags a finished row back
	"A14": {"postgres.TestEveryStateHasAnExit"},                                                    // states without an exit
	"A15": {"ingest.TestReplayOfWhatWasNotHeld", "queue.TestEnqueueLostAnswer"},                    // dispatch fails, redelivery is dropped
	"A16": {"queue.TestMeetArchived", "ingest.TestAnswerOfAHeldEvent"},                             // deliberate redelivery shows nothing
	"A17": {"ingest.TestDeadline", "source.TestProviders"},                                         // GitHub does not retry
	"A18": {"source.TestProviders"},                                                                // an id that is new for each attempt
	"A19": {"source.TestSubscriptionsAreNoIDs"},                                                    // a subscription's id
	"A20": {"source.TestIdentity"},                                                                 // null, empty, all zero
	"A21": {"source.TestIdentity"},                                                                 // a key without the type
	"A22": {"postgres.TestPurgedIsDuplicate", "postgres.TestClaimTable"},                           // 46 times in 29 hours
	"A23": {"source.TestProviders"},                                                                // which id is per attempt
	"A24": {"ingest.TestSameMessageOtherID"},                                                       // 11 ids for one message: 11 events
	"A25": {"source.TestIdentity"},                                                                 // equal content under two ids
	"A26": {"source.TestIdentity"},                                                                 // parts glued together
	"A27": {"postgres.TestPurgedIsDuplicate"},                                                      // resent after 29 days
	"A28": {"postgres.TestPurgedIsDuplicate", "row 66"},                                            // forgotten by Redis
	"A29": {"ingest.TestCatalogueStripeSignature", "ingest.TestCatalogueReplay"},                   // replayed a day later
	"A30": {"lock.TestReleaseOnlyOwn", "worker.TestLockBusy", "worker.TestLockUnavailable"},        // a lock freed by another
	"A31": {"worker.TestStuck", "postgres.TestAttemptOvertaken", "row 18"},                         // work longer than the lock
	"A32": {"postgres.TestFactsOfPooler", "no session-level lock is taken: the lock is in Redis, the fence in the row"},
	"A33": {"postgres.TestClaimRace", "row 50"},                                             // read, then write later
	"A34": {"queue.TestMeetArchived"},                                                       // an archived task refuses its redelivery
	"A35": {"queue.TestMeetArchived", "worker.TestStanding"},                                // the same, silently
	"A36": {"asynq's Unique is not used: the id of the task is the event's"},                //
	"A37": {"worker.TestStanding", "program.TestCopies"},                                    // a copy after completion
	"A38": {"queue.TestStuck", "queue.TestUnstick", "row 29"},                               // active without a lease
	"A39": {"queue.TestServeAttemptOutlivesAsynq", "worker.TestLockBusy", "row 11/12"},      // retried while it runs
	"A40": {"sweeper.TestTrim", "postgres.TestDeadMany", "hookonce.TestDeadList", "row 40"}, // the archive forgets
	"A41": {"queue.TestServePanic", "worker.TestPanicStack", "row 16"},                      // a panic nobody sees
	"A42": {"queue.TestServeShutdown", "worker.TestShutdown", "row 10"},                     // stopped in the middle
	"A43": {"program.TestStartEvicting"},                                                    // volatile-lru
	"A44": {"sweeper.TestSweepForReal", "row 35"},                                           // allkeys-lru
	"A45": {"program.TestStartHidden", "queue.TestFactsHidden"},                             // CONFIG is hidden
	"A46": {"queue.TestTaskID", "queue.TestDialCluster", "row 33b"},                         // braces and slots
	"A47": {"row 21"},                                                                       // no persistence
	"A48": {"custody.TestKeeper", "row 24", "row 25"},                                       // Redis away for long
	"A49": {"row 31", "row 32"},                                                             // failover, READONLY
	"A50": {"custody.TestKeeperLargeBody", "queue.TestMemory", "queue.TestServeNeighbour"},  // payloads fill Redis; a noisy source
}

func TestReports(t *testing.T) {
	tests, rows := testNames(t)
	for n := 1; n <= 50; n++ {
		number := fmt.Sprintf("A%02d", n)
		t.Run(number, func(t *testing.T) {
			if len(reports[number]) == 0 {
				t.Error("nothing shows that it cannot happen here")
			}
			for _, by := range reports[number] {
				row, isRow := strings.CutPrefix(by, "row ")
				switch {
				case isRow && !slices.Contains(rows, row):
					t.Errorf("the fault suite has no row %s", row)
				case !isRow && !strings.Contains(by, " ") && !slices.Contains(tests, by):
					t.Errorf("there is no %s", by)
				}
			}
		})
	}
}

var (
	testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	faultRow     = regexp.MustCompile(`number: "([^"]+)"`)
)

// testNames lists all tests as "package.Test", the package being its folder's
// name, and the rows of the fault suite.
func testNames(t *testing.T) (tests, rows []string) {
	t.Helper()
	for _, top := range []string{".", "../cmd"} {
		err := filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			code, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range testFunction.FindAllStringSubmatch(string(code), -1) {
				tests = append(tests, filepath.Base(filepath.Dir(path))+"."+m[1])
			}
			if filepath.Base(filepath.Dir(path)) == "faults" {
				for _, m := range faultRow.FindAllStringSubmatch(string(code), -1) {
					rows = append(rows, m[1])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return tests, rows
}
