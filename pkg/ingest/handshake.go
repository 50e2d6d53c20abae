package ingest

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// greetGet answers a GET or HEAD by which a provider tries the address. It
// reports false for any other request.
func (d *delivery) greetGet(c echo.Context) (bool, error) {
	r := c.Request()
	if r.Method != http.MethodGet && r.Method != http.MethodHead || d.src.Handshake == source.HandshakeNone {
		return false, nil
	}
	g, ok, err := d.src.GreetGet(r.Method, r.URL.Query())
	if !ok || err != nil {
		return ok, err
	}
	return true, d.greet(c, g)
}

// greetPost is greetGet for a POST that was verified, with this secret.
func (d *delivery) greetPost(c echo.Context, secret int) (bool, error) {
	if d.src.Handshake == source.HandshakeNone {
		return false, nil
	}
	g, ok, err := d.src.GreetPost(secret, d.body)
	if !ok || err != nil {
		return ok, err
	}
	return true, d.greet(c, g)
}

// greet sends the answer. Nothing is kept of the request.
func (d *delivery) greet(c echo.Context, g source.Greeting) error {
	d.report.Outcome = webhook.Ignored
	d.observe(d.report)
	args := []any{"source", d.src.Name, "handshake", d.src.Handshake}
	if g.Subscribe != "" {
		d.Log.WarnContext(c.Request().Context(), "to confirm the subscription, a person has to open its address", append(args, "url", g.Subscribe)...)
		return d.accept(c, answer{Status: webhook.Ignored, Message: "A person has to confirm the subscription.", EventID: d.eventID()})
	}
	d.Log.InfoContext(c.Request().Context(), "handshake answered", args...)
	c.Response().Header().Set("X-Content-Type-Options", "nosniff")
	if g.Body == "" {
		if g.Type != "" {
			c.Response().Header().Set("Content-Type", g.Type)
		}
		return c.NoContent(g.Code)
	}
	return c.Blob(g.Code, g.Type, []byte(g.Body))
}
