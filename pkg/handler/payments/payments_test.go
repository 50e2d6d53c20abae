package payments_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hookonce/hookonce/migrations"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/handler/payments"
	"github.com/hookonce/hookonce/pkg/payload"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

func newHandler(t *testing.T, at string) *payments.Handler {
	t.Helper()
	p, err := payload.ParsePointer(at)
	if err != nil {
		t.Fatal(err)
	}
	return payments.New(p)
}

func connect(t *testing.T) *pgx.Conn {
	t.Helper()
	url := stacktest.Postgres(t)
	if _, err := migrations.Up(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func handle(t *testing.T, conn *pgx.Conn, ev webhook.Event) error {
	t.Helper()
	h := newHandler(t, "/data/amount")
	return pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error { return h.Handle(t.Context(), tx, ev) })
}

func event(id, amount string) webhook.Event {
	return webhook.Event{Source: "shop", ID: id, Type: "payment.succeeded", Attempt: 3, Body: []byte(`{"data":{"amount":` + amount + `}}`)}
}

// A payment is a row of the table.
type payment struct {
	Source, EventID, EventType string
	Amount                     int64
	Attempt                    int
}

func booked(t *testing.T, conn *pgx.Conn) []payment {
	t.Helper()
	rows, _ := conn.Query(t.Context(), `SELECT source, event_id, event_type, amount, attempt FROM payments ORDER BY id`)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[payment])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestHandle books integers exactly: 2^53+1 is the first that a float64 lacks.
func TestHandle(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	amounts := []int64{0, 4200, 1<<53 + 1, 1<<63 - 1}
	for _, amount := range amounts {
		ev := event(fmt.Sprint("e-", amount), fmt.Sprint(amount))
		if err := handle(t, conn, ev); err != nil {
			t.Errorf("Handle(%d) = %v", amount, err)
		}
	}
	got := booked(t, conn)
	if len(got) != len(amounts) {
		t.Fatalf("booked %+v, want one row for each of %v", got, amounts)
	}
	for i, amount := range amounts {
		if want := (payment{"shop", fmt.Sprint("e-", amount), "payment.succeeded", amount, 3}); got[i] != want {
			t.Errorf("booked %+v, want %+v", got[i], want)
		}
	}
}

// TestHandleTwice meets the table's own UNIQUE key, which has the last word.
func TestHandleTwice(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	if err := handle(t, conn, event("e-1", "1")); err != nil {
		t.Fatal(err)
	}
	err := handle(t, conn, event("e-1", "2"))
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || refusal.Code != "23505" || webhook.IsPermanent(err) || !strings.Contains(err.Error(), "shop:e-1") {
		t.Errorf("Handle = %v, want a unique violation that names the event", err)
	}
	other := event("e-1", "3")
	other.Source = "market"
	if err := handle(t, conn, other); err != nil {
		t.Errorf("Handle of another source's event of the same id = %v", err)
	}
	if got := booked(t, conn); len(got) != 2 || got[0].Amount != 1 || got[1].Amount != 3 {
		t.Errorf("booked %+v", got)
	}
}

// TestHandleRefuses has bodies that will not get better. None reaches the
// transaction, which is nil.
func TestHandleRefuses(t *testing.T) {
	t.Parallel()
	h := newHandler(t, "/data/amount")
	for _, body := range []string{
		``,
		`not json`,
		`[]`,
		`{}`,
		`{"data":{}}`,
		`{"amount":1}`,
		`{"data":{"amount":null}}`,
		`{"data":{"amount":1e3}}`,
		`{"data":{"amount":1.0}}`,
		`{"data":{"amount":1.5}}`,
		`{"data":{"amount":"5"}}`,
		`{"data":{"amount":true}}`,
		`{"data":{"amount":[5]}}`,
		`{"data":{"amount":-1}}`,
		`{"data":{"amount":-0}}`,
		`{"data":{"amount":9223372036854775808}}`,
		`{"data":{"amount":1,"amount":1}}`,
		`{"data":{"amount":1,"Amount":2}}`,
		`{"data":{"amount":1}} {}`,
	} {
		err := h.Handle(t.Context(), nil, webhook.Event{Source: "shop", ID: "e-1", Body: []byte(body)})
		if !webhook.IsPermanent(err) || !strings.Contains(err.Error(), "/data/amount") {
			t.Errorf("Handle(%s) = %v, want a permanent error that names the place", body, err)
		}
	}
}
