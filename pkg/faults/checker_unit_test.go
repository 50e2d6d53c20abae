package faults

import (
	"crypto/sha256"
	"slices"
	"testing"
	"time"
)

// TestJudge shows the checker one thing that is wrong at a time.
func TestJudge(t *testing.T) {
	t.Parallel()
	k := key{"main", "e1"}
	sum := sha256.Sum256([]byte("body"))
	other := sha256.Sum256([]byte("other"))
	rec := func(status string, attempt int) record {
		return record{"main", "e1", status, attempt, attempt, sum[:], true}
	}
	eff := func(attempt int) effect { return effect{"main", "e1", attempt, sum[:]} }
	tests := []struct {
		name string
		e    evidence
		want []string
	}{
		{"all is well", evidence{records: []record{rec("completed", 2)}, effects: []effect{eff(2)}}, nil},
		{"no row", evidence{}, []string{lost}},
		{"open", evidence{records: []record{rec("processing", 1)}}, []string{lost}},
		{"no effect", evidence{records: []record{rec("completed", 1)}}, []string{effectLost}},
		{"two effects", evidence{records: []record{rec("completed", 2)}, effects: []effect{eff(2), eff(2)}}, []string{doubled}},
		{"effect of an attempt that was fenced", evidence{records: []record{rec("completed", 2)}, effects: []effect{eff(1)}}, []string{fenceBroken}},
		{"dead with effect", evidence{records: []record{rec("dead", 3)}, effects: []effect{eff(3)}, rules: rules{mayDie: map[string]bool{"main": true}}}, []string{deadEffect}},
		{"dead by others", evidence{records: []record{rec("dead", 3)}}, []string{mustLive}},
		{"over budget", evidence{records: []record{rec("completed", 9)}, effects: []effect{eff(9)}, rules: rules{maxRetry: map[string]int{"main": 7}}}, []string{overBudget}},
		{"body of another", evidence{
			records: []record{{"main", "e1", "completed", 1, 1, other[:], true}}, effects: []effect{{"main", "e1", 1, other[:]}},
		}, []string{otherBody}},
		{"never sent", evidence{
			records: []record{rec("completed", 1), {"main", "e2", "completed", 1, 1, sum[:], true}}, effects: []effect{eff(1), {"main", "e2", 1, sum[:]}},
		}, []string{ghost}},
		{"reopened", evidence{
			records: []record{rec("completed", 1)}, effects: []effect{eff(1)}, changes: []change{{"main", "e1", "completed", "received", 1, 1, time.Time{}}},
		}, []string{illegal + " completed to received"}},
		{"attempt falls", evidence{
			records: []record{rec("completed", 1)}, effects: []effect{eff(1)}, changes: []change{{"main", "e1", "failed", "processing", 3, 1, time.Time{}}},
		}, []string{illegal + " failed to processing"}},
		{"acknowledged too early", evidence{
			records: []record{rec("completed", 1)}, effects: []effect{eff(1)}, log: []delivery{{key: k, code: 200, ended: time.Unix(100, 0)}},
			changes: []change{{"main", "e1", "none", "received", 0, 0, time.Unix(101, 0)}}, rules: rules{strict: true},
		}, []string{tooEarly}},
		{"wrong code", evidence{
			records: []record{rec("completed", 1)}, effects: []effect{eff(1)}, log: []delivery{{key: k, code: 500}},
		}, []string{badCode + " 500"}},
		{"late", evidence{
			records: []record{rec("completed", 1)}, effects: []effect{eff(1)}, log: []delivery{{key: k, code: 200, took: time.Minute}}, rules: rules{budget: time.Second},
		}, []string{tooLate}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.e.events = map[key]*event{k: {key: k, acked: true, sums: map[[sha256.Size]byte]bool{sum: true}}}
			v := judge(tt.e)
			var got []string
			for _, one := range v.violations {
				if !slices.Contains(got, one.name) {
					got = append(got, one.name)
				}
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if !slices.Equal(got, tt.want) {
				t.Errorf("judge = %q, want %q", got, tt.want)
			}
		})
	}
}
