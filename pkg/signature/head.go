package signature

import "net/http"

// Head reports, as an [*Error], headers that no body could make right: those
// of the signature are missing or malformed. It returns nil where they may be
// right, and where the scheme has no such headers.
//
// It spares the reading of a body that a client holds back until it is asked
// for; [Verifier.Match] says the same later.
func (v *Verifier) Head(h http.Header) error {
	kind := v.scheme.Kind
	if v.inside.signature >= 0 || len(v.or) > 0 || v.scheme.Items != "" || kind == Token || kind == Basic {
		return nil
	}
	m := v.memory.Get().(*scratch)
	defer v.memory.Put(m)
	m.reset()
	_, err := v.readSignatures(m, h)
	return err
}
