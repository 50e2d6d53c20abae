package faults

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// effects is the worker's handler: it writes one row that no key keeps from
// being written twice. What else it does, the event's type says.
type effects struct {
	sink string // address of the outside world
}

const insertEffect = `INSERT INTO effects (source, event_id, attempt, sha256) VALUES ($1, $2, $3, $4)`

// The types of events. A poison does the same in each attempt.
const (
	typePlain     = "plain"     // 20–140 ms of work, before the effect or after it
	typeQuick     = "quick"     // only the effect
	typeSlow      = "slow"      // 0.9–1.5 s
	typeFirstLong = "firstlong" // the first attempt works until it is told to stop
	typeFlaky     = "flaky"     // half of the first attempts fail
	typeDeadlock  = "deadlock"
	typeSerial    = "serial" // serialization failures
	typeSink      = "sink"   // calls the outside world, which does it and answers late
	typeRevive    = "revive" // fails until it was replayed

	typeError    = "poison.error"
	typePanic    = "poison.panic"
	typeGoPanic  = "poison.gopanic" // in a goroutine of its own: nobody can recover it
	typeExit     = "poison.exit"
	typeMemory   = "poison.memory"   // 64 MB, then 137, as by the kernel's hand: a real shortage would hit the machine
	typeStubborn = "poison.stubborn" // does not watch its context
)

// Handle does what the type says.
func (e *effects) Handle(ctx context.Context, tx pgx.Tx, ev webhook.Event) error {
	write := func() error {
		sum := sha256.Sum256(ev.Body)
		_, err := tx.Exec(ctx, insertEffect, ev.Source, ev.ID, ev.Attempt, sum[:])
		return err
	}
	h := hash(ev.ID)
	if strings.HasPrefix(ev.Type, "poison.") { // with an effect that must not stay
		if err := write(); err != nil {
			return err
		}
		return poison(ev.Type)
	}
	work := 20*time.Millisecond + time.Duration(h%120)*time.Millisecond
	switch ev.Type {
	case typeQuick:
		work = 0
	case typeSlow:
		work = 900*time.Millisecond + time.Duration(h%600)*time.Millisecond
	case typeFirstLong:
		if ev.Attempt == 1 {
			work = time.Minute
		}
	case typeFlaky:
		if ev.Attempt < 9 && hash(fmt.Sprint(ev.ID, ev.Attempt))%2 == 0 {
			if err := write(); err != nil {
				return err
			}
			return errors.New("flaky")
		}
	case typeDeadlock, typeSerial:
		work = 0 // with the few rows locked that all of these meet at
		if err := contend(ctx, tx, ev.Type, h); err != nil {
			return err
		}
	case typeSink:
		if err := e.call(ctx, ev); err != nil {
			return err
		}
	case typeRevive:
		if ev.Attempt <= 3 {
			return errors.New("not before somebody replays it")
		}
	}
	if h%2 == 0 {
		if err := write(); err != nil {
			return err
		}
		return nap(ctx, work)
	}
	if err := nap(ctx, work); err != nil {
		return err
	}
	return write()
}

func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	x := h.Sum64() // the low bits of what was hashed last are not mixed well
	return x ^ x>>29
}

func nap(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func poison(kind string) error {
	switch kind {
	case typePanic:
		panic("poison")
	case typeGoPanic:
		go panic("poison in a goroutine")
		time.Sleep(time.Minute)
	case typeExit:
		os.Exit(1)
	case typeMemory:
		hog := bytes.Repeat([]byte{1}, 64<<20)
		os.Exit(136 + int(hog[len(hog)-1]))
	case typeStubborn:
		time.Sleep(6 * time.Second)
	}
	return errors.New("poison")
}

// contend makes transactions meet: in a circle, or in a snapshot.
func contend(ctx context.Context, tx pgx.Tx, how string, h uint64) error {
	if how == typeSerial {
		if _, err := tx.Exec(ctx, `SET TRANSACTION ISOLATION LEVEL SERIALIZABLE`); err != nil {
			return err
		}
		var n int
		if err := tx.QueryRow(ctx, `SELECT n FROM accounts WHERE id = $1`, 5+h%8).Scan(&n); err != nil {
			return err
		}
		if err := nap(ctx, 10*time.Millisecond); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE accounts SET n = n + 1 WHERE id = $1`, 5+h%8)
		return err
	}
	accounts := []uint64{1 + h/4%2*2, 2 + h/4%2*2}
	if h/2%2 == 0 {
		slices.Reverse(accounts)
	}
	for i, id := range accounts {
		if err := nap(ctx, time.Duration(i)*30*time.Millisecond); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE accounts SET n = n + 1 WHERE id = $1`, id); err != nil {
			return err
		}
	}
	return nil
}

// call tells the outside world, with the event's own key.
func (e *effects) call(ctx context.Context, ev webhook.Event) error {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.sink+"/"+ev.ID, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Idempotency-Key", ev.IdempotencyKey())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
