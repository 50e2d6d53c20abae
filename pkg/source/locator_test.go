package source_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/source"
)

// readID reads the id of a delivery of a source whose ids are at those places.
func readID(t *testing.T, h http.Header, body string, at ...source.Locator) string {
	t.Helper()
	s := source.New("shop")
	s.ID, s.Type = at, []source.Locator{{Text: "x"}}
	s.Content = []source.Kind{source.JSON, source.Form}
	h.Set("Content-Type", "application/json")
	if !strings.HasPrefix(body, "{") {
		h.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	items, err := s.Read(h, []byte(body))
	if err != nil {
		return err.Error()
	}
	return items[0].ID
}

// An id that may be missing, or empty, makes room for the next place, such as
// the event's own bytes.
func TestIDOr(t *testing.T) {
	t.Parallel()
	hash := "sha256:"
	for name, row := range map[string]struct {
		at     source.Locator
		header http.Header
		body   string
		want   string
	}{
		"there":        {source.Locator{JSON: source.Pointer("/id")}, header(), `{"id":"a"}`, "a"},
		"missing":      {source.Locator{JSON: source.Pointer("/id")}, header(), `{"other":"a"}`, hash},
		"null":         {source.Locator{JSON: source.Pointer("/id")}, header(), `{"id":null}`, hash},
		"empty":        {source.Locator{JSON: source.Pointer("/id")}, header(), `{"id":""}`, hash},
		"blank":        {source.Locator{JSON: source.Pointer("/id")}, header(), `{"id":" "}`, "id: is blank"},
		"zeros":        {source.Locator{JSON: source.Pointer("/id")}, header(), `{"id":"00000000"}`, "id: is all zeros"},
		"header":       {source.Locator{Header: "X-Id"}, header("X-Id", "a"), `{}`, "a"},
		"no header":    {source.Locator{Header: "X-Id"}, header(), `{}`, hash},
		"empty header": {source.Locator{Header: "X-Id"}, header("X-Id", ""), `{}`, hash},
		"field":        {source.Locator{Form: "id"}, header(), "id=a", "a"},
		"no field":     {source.Locator{Form: "id"}, header(), "ids=a", hash},
		"empty field":  {source.Locator{Form: "id"}, header(), "id=", hash},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.at.Optional, row.at.Or = true, []source.Locator{{Content: true}}
			if got := readID(t, row.header, row.body, row.at); got != row.want && (row.want != hash || !strings.HasPrefix(got, hash)) {
				t.Errorf("id = %q, want %q", got, row.want)
			}
		})
	}
}

// The same bytes have the same content, and other bytes another.
func TestIDContent(t *testing.T) {
	t.Parallel()
	content := source.Locator{Content: true}
	one, same, other := readID(t, header(), `{"a":1}`, content), readID(t, header(), `{"a":1}`, content), readID(t, header(), `{"a":1} `, content)
	if one != same || one == other || one != "sha256:015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862" {
		t.Errorf("ids = %s, %s, %s", one, same, other)
	}
}

// Where the provider says the same words each time, each delivery counts.
func TestIDDelivery(t *testing.T) {
	t.Parallel()
	at := source.Locator{Delivery: true}
	if one, other := readID(t, header(), `{}`, at), readID(t, header(), `{}`, at); one == other || len(one) < 20 {
		t.Errorf("ids = %s, %s", one, other)
	}
}
