package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// The guard of every write after the claim: the row must still be the
// attempt's own. It is what fences a worker that was thought dead.
const guard = `source = @source AND event_id = @event_id AND attempt = @attempt AND worker = @worker AND status = 'processing'`

const completeEvent = `
UPDATE received_events SET
	status = 'completed',
	completed_at = clock_timestamp(),
	lease_until = NULL,
	sweep_at = NULL,
	lost = 0,
	last_error = NULL,
	error_kind = NULL
WHERE ` + guard

// complete fails with divisionByZero where the row is not the attempt's any
// more: it goes to the database together with the commit, which must not
// happen then.
var complete = named(`
WITH completed AS (` + completeEvent + `
	RETURNING 1
)
SELECT 1 / count(*) FROM completed`)

// transactionTries bounds how often a transaction that met a deadlock or a
// serialization failure is run within one attempt. Those that met would meet
// again, so each waits first, by chance up to conflictPause, then twice that.
const (
	transactionTries = 4
	conflictPause    = 50 * time.Millisecond
)

// Attempt runs handle in a transaction and completes the event in that same
// transaction, exactly one row or none of it: what handle wrote through tx and
// the completion become true together or not at all. After a deadlock or a
// serialization failure it runs handle again, a few times and after a short
// pause, in a new transaction.
//
// The transaction begins with the first statement on tx. Only Attempt may end
// it: Commit and Rollback of tx return an error.
//
// An error means that nothing was kept, with one exception: after
// [webhook.ErrUnavailable] the commit may have arrived, and [Store.Settle]
// finds out. [webhook.ErrFenced] means that the event is no longer the
// attempt's. Any other error is handle's own.
func (s *Store) Attempt(ctx context.Context, c webhook.Claim, handle func(ctx context.Context, tx pgx.Tx) error) error {
	for try := 1; ; try++ {
		err := s.attempt(ctx, c, handle)
		if !again(err) || try == transactionTries {
			return err
		}
		select {
		case <-time.After(rand.N(conflictPause << (try - 1))):
		case <-ctx.Done():
			return err
		}
	}
}

func (s *Store) attempt(ctx context.Context, c webhook.Claim, handle func(ctx context.Context, tx pgx.Tx) error) error {
	tx := &lazyTx{ctx: ctx, db: s.db, timeout: c.Terms.Timeout}
	defer tx.release()
	// An attempt that ignores its deadline loses its connection with its lease.
	defer time.AfterFunc(time.Until(c.LeaseEnd()), tx.cut).Stop()
	if err := handle(ctx, tx); err != nil {
		return tx.blame(ctx, err)
	}
	if err := tx.fit(ctx); err != nil {
		return tx.blame(ctx, err)
	}
	err := tx.commit(ctx, complete, guardArgs(c))
	if err != nil && !errors.Is(err, webhook.ErrFenced) {
		return fmt.Errorf("complete %s/%s: %w", c.Event.Source, c.Event.ID, err)
	}
	return err
}

func guardArgs(c webhook.Claim) pgx.NamedArgs {
	return pgx.NamedArgs{
		"source":   c.Event.Source,
		"event_id": c.Event.ID,
		"attempt":  c.Event.Attempt,
		"worker":   c.Worker,
	}
}

// A received event is given back: the attempt costs nothing, and if no task
// brings the event back within 30 s it counts as forgotten by the queue.
const settleEvent = `
WITH settled AS (
	UPDATE received_events SET
		status = @status,
		budget_from = CASE @status WHEN 'received' THEN budget_from + 1 ELSE budget_from END,
		lease_until = NULL,
		next_attempt_at = CASE @status WHEN 'failed' THEN clock_timestamp() + @delay::interval END,
		sweep_at = CASE @status
			WHEN 'failed' THEN clock_timestamp() + @delay::interval + interval '30 seconds'
			WHEN 'received' THEN clock_timestamp() + interval '30 seconds' END,
		sweeps = 0,
		lost = 0,
		last_error = @error,
		error_kind = @kind
	WHERE ` + guard + `
	RETURNING source, event_id, attempt, started_at, worker
)
INSERT INTO event_attempts (source, event_id, attempt, kind, error, started_at, ended_at, worker)
SELECT source, event_id, attempt, @kind, @error, started_at, clock_timestamp(), worker FROM settled`

const selectState = `
SELECT status, attempt, worker IS NOT DISTINCT FROM @worker AS mine
FROM received_events WHERE source = @source AND event_id = @event_id`

// patientBegin begins a transaction that may wait for a lock.
var patientBegin = "begin; set local lock_timeout = " + millis(settleTimeout)

// Settle records what an attempt that did not succeed came to, if the event is
// still the attempt's, and returns the event's status. That is completed if the
// attempt's commit had arrived after all: Settle waits for the backend of a
// connection that was cut off while it committed. [webhook.ErrFenced] means
// that another attempt has taken over, and nothing was recorded.
func (s *Store) Settle(ctx context.Context, c webhook.Claim, v webhook.Verdict) (webhook.Status, error) {
	args := guardArgs(c)
	args["status"] = string(v.Status)
	args["delay"] = v.Delay
	args["error"] = text(v.Reason)
	args["kind"] = string(v.Kind)
	var status webhook.Status
	err := pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{BeginQuery: patientBegin}, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, settleEvent, args)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 1 {
			status = v.Status
			return nil
		}
		status, err = fencedState(ctx, tx, c)
		return err
	})
	if err != nil && !errors.Is(err, webhook.ErrFenced) {
		return "", unavailable(fmt.Errorf("settle %s/%s: %w", c.Event.Source, c.Event.ID, err))
	}
	return status, err
}

// fencedState tells a commit that arrived from an attempt that was overtaken.
func fencedState(ctx context.Context, tx pgx.Tx, c webhook.Claim) (webhook.Status, error) {
	var status webhook.Status
	var attempt int
	var mine bool
	err := tx.QueryRow(ctx, selectState, guardArgs(c)).Scan(&status, &attempt, &mine)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", err
	}
	if err == nil && mine && attempt == c.Event.Attempt && status == webhook.Completed {
		return webhook.Completed, nil
	}
	return "", webhook.ErrFenced
}

const restartLease = `
UPDATE received_events SET
	started_at = clock_timestamp(),
	lease_until = clock_timestamp() + @lease::interval,
	sweep_at = clock_timestamp() + @lease::interval
WHERE ` + guard

// Restart lets the attempt's time begin anew, if the event is still the
// attempt's, else it returns [webhook.ErrFenced].
func (s *Store) Restart(ctx context.Context, c webhook.Claim) (webhook.Claim, error) {
	args := guardArgs(c)
	args["lease"] = c.Terms.Lease()
	sent := time.Now()
	tag, err := s.db.Exec(ctx, restartLease, args)
	if err != nil {
		return c, unavailable(fmt.Errorf("restart %s/%s: %w", c.Event.Source, c.Event.ID, err))
	}
	if tag.RowsAffected() != 1 {
		return c, webhook.ErrFenced
	}
	c.Deadline = sent.Add(c.Terms.Timeout)
	return c, nil
}

// The last attempt allowed was lost with its worker, so nobody is there to
// record the death; whoever finds it does.
const buryEvent = `
WITH buried AS (
	UPDATE received_events SET
		status = 'dead', lease_until = NULL, sweep_at = NULL, lost = lost + 1, last_error = @error, error_kind = @kind
	WHERE source = @source AND event_id = @event_id AND attempt = @attempt
		AND status = 'processing' AND lease_until <= clock_timestamp() AND attempt - budget_from > @max_retry
	RETURNING source, event_id, attempt, started_at, worker
)
INSERT INTO event_attempts (source, event_id, attempt, kind, error, started_at, ended_at, worker)
SELECT source, event_id, attempt, @kind, @error, started_at, clock_timestamp(), worker FROM buried`

// Bury makes an event dead whose last allowed attempt, numbered attempt, was
// lost with its worker. It reports false if the event moved on meanwhile.
func (s *Store) Bury(ctx context.Context, ev webhook.Event, attempt, maxRetry int, reason string) (bool, error) {
	tag, err := s.db.Exec(ctx, buryEvent, pgx.NamedArgs{
		"source": ev.Source, "event_id": ev.ID, "attempt": attempt, "max_retry": maxRetry,
		"kind": string(webhook.KindLost), "error": reason,
	})
	if err != nil {
		return false, unavailable(fmt.Errorf("bury %s/%s: %w", ev.Source, ev.ID, err))
	}
	return tag.RowsAffected() == 1, nil
}
