package dashboard_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/dashboard"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

// open returns a dashboard, and the name of a queue with one task, "t-1".
func open(t *testing.T) (h http.Handler, queue string) {
	t.Helper()
	options, err := redis.ParseURL(stacktest.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	queue = stacktest.Source(t)
	rdb := redis.NewClient(options)
	t.Cleanup(func() { rdb.Close() })
	if _, err := asynq.NewClientFromRedisClient(rdb).Enqueue(asynq.NewTask("event", nil), asynq.Queue(queue), asynq.TaskID("t-1")); err != nil {
		t.Fatal(err)
	}
	var dialed []*redis.Client
	d := dashboard.New(func() any {
		c := redis.NewClient(options)
		dialed = append(dialed, c)
		return c
	})
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		for i, c := range dialed {
			if err := c.Close(); !errors.Is(err, redis.ErrClosed) {
				t.Errorf("client %d is still open: %v", i, err)
			}
		}
	})
	return d, queue
}

func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(`{"task_ids":["t-1"]}`)))
	return w
}

func TestPage(t *testing.T) {
	t.Parallel()
	h, _ := open(t)
	w := ask(h, "GET", "/")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "<html") {
		t.Errorf("GET / = %d: %s", w.Code, w.Body)
	}
}

func TestQueues(t *testing.T) {
	t.Parallel()
	h, queue := open(t)
	w := ask(h, "GET", "/api/queues")
	for range 100 { // a queue of another test may go between asynqmon's list and its look
		if !strings.Contains(w.Body.String(), "does not exist") {
			break
		}
		w = ask(h, "GET", "/api/queues")
	}
	var got struct {
		Queues []struct {
			Queue string
			Size  int
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
		t.Fatalf("GET /api/queues = %d: %s", w.Code, w.Body)
	}
	for _, q := range got.Queues {
		if q.Queue == queue && q.Size == 1 {
			return
		}
	}
	t.Errorf("GET /api/queues = %s, want %s with one task", w.Body, queue)
}

// TestReadOnly has what asynqmon can do to a queue.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	h, queue := open(t)
	for _, action := range []string{
		"POST :pause",
		"POST :resume",
		"POST /active_tasks/t-1:cancel",
		"POST /active_tasks:cancel_all",
		"POST /pending_tasks/t-1:archive",
		"POST /pending_tasks:archive_all",
		"POST /pending_tasks:batch_delete",
		"POST /retry_tasks/t-1:run",
		"POST /retry_tasks:run_all",
		"POST /archived_tasks/t-1:run",
		"POST /archived_tasks:batch_run",
		"DELETE /pending_tasks/t-1",
		"DELETE /pending_tasks:delete_all",
		"DELETE ",
	} {
		method, path, _ := strings.Cut(action, " ")
		if w := ask(h, method, "/api/queues/"+queue+path); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s = %d: %s", action, w.Code, w.Body)
		}
	}
	w := ask(h, "GET", "/api/queues/"+queue+"/tasks/t-1")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"state":"pending"`) {
		t.Errorf("the task afterwards: %d: %s", w.Code, w.Body)
	}
}
