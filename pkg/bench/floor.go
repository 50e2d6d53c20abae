package bench

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

// floor is the least that a receiver must do: read the body, check the HMAC,
// parse id and type, answer. It holds nothing, so it is no receiver; whatever
// holds events costs more than this.
func floor() http.Handler {
	e := echo.New()
	e.POST("/webhooks/:source", func(c echo.Context) error { // the load generator
		ev, err := readEvent(c.Request())
		if err != nil {
			return c.JSON(http.StatusBadRequest, reply{"error", err.Error(), ""})
		}
		return c.JSON(http.StatusOK, reply{"accepted", "Event accepted for processing.", ev.ID})
	})
	return e
}

type reply struct {
	Status  string `json:"status"`
	Message string `json:"message"`
	EventID string `json:"event_id"`
}

// An event is what the floor and the naive designs read of a delivery.
type event struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data struct {
		Object struct {
			Amount int64 `json:"amount"`
		} `json:"object"`
	} `json:"data"`
}

var errSignature = errors.New("signature does not match")

func readEvent(r *http.Request) (ev event, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return ev, err
	}
	timestamp, signature, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Stripe-Signature"), "t="), ",v1=")
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	if got, err := hex.DecodeString(signature); err != nil || !hmac.Equal(got, mac.Sum(nil)) {
		return ev, errSignature
	}
	return ev, json.Unmarshal(body, &ev)
}
