package doctor

import (
	"fmt"
	"time"
)

// Attempts are how long those of a source took lately.
type Attempts struct {
	Source  string
	Events  int
	P99     time.Duration
	Timeout time.Duration // the deadline of an attempt; 0 if the source is not known
}

// enoughEvents is how many tell something of the slowest.
const enoughEvents = 20

// check has half of the deadline for the day on which all is slower.
func (a Attempts) check() []Finding {
	if a.Timeout == 0 || a.Events < enoughEvents {
		return nil
	}
	f := Finding{Level: OK, Subject: "source " + a.Source,
		Text: fmt.Sprintf("99 %% of the attempts of the last hour took at most %s of the %s that timeout gives them", a.P99.Round(time.Millisecond), a.Timeout)}
	if a.P99 > a.Timeout/2 {
		f.Level = Warning
		f.Text = fmt.Sprintf("1 %% of the attempts of the last hour took more than %s, which is over half of the %s that timeout gives them; past it an attempt is undone and run again",
			a.P99.Round(time.Millisecond), a.Timeout)
		f.Fix = "make the handler faster, or raise timeout of the source"
	}
	return []Finding{f}
}
