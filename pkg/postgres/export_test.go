package postgres

// Waiting is how many deliveries wait for a batch. A test that must see several
// in one batch lets them wait before it calls Run.
func (b *Inbox) Waiting() int { return len(b.jobs) }
