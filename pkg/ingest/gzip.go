package ingest

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// checkEncoding says whether the body is compressed, or refuses it.
func (d *delivery) checkEncoding(h http.Header) error {
	encoding := strings.TrimSpace(strings.Join(h["Content-Encoding"], ","))
	switch {
	case encoding == "" || strings.EqualFold(encoding, "identity"):
		return nil
	case d.src.Gzip == "":
		return &source.MediaError{Reason: "Content-Encoding must not be used"}
	case strings.EqualFold(encoding, "gzip") || strings.EqualFold(encoding, "x-gzip"):
		d.gzipped = true
		return nil
	}
	return &source.MediaError{Reason: "Content-Encoding must be gzip or none"}
}

// inflate replaces a compressed body by what is in it, which may be as large as
// any other body.
func (d *delivery) inflate() error {
	d.gzipped = false
	from, err := gzip.NewReader(bytes.NewReader(d.body))
	if err != nil {
		return errGzip
	}
	limit := d.src.MaxBody
	body, err := d.room.readAll(io.LimitReader(from, limit+1), -1, limit)
	switch {
	case errors.Is(err, errNoRoom):
		return err
	case err != nil:
		return errGzip
	case int64(len(body)) > limit:
		return &http.MaxBytesError{Limit: limit}
	}
	d.body, d.sum = body, sha256.Sum256(body)
	return nil
}

var errGzip = &webhook.InvalidError{Reason: "broken gzip"}
