package source

// An About is what a person wants to know of a provider. PROVIDERS.md says it,
// with what follows from the rest of the preset.
type About struct {
	Title string
	Page  string // what the provider itself writes about its webhooks

	// Setup is what to paste where: "the address" is that of the source, and the
	// secret is what secrets of the sources file has.
	Setup string

	// Wants is the answer that the provider wants, if not any 2xx.
	Wants string
	// Timeout is how long it waits for an answer, and Retries whether and for
	// how long it tries again; "" if it does not publish that, or we do not know.
	Timeout string
	Retries string
	// Redeliver is how to ask for what was lost; "" if nobody need ask, or there
	// is no way that we know.
	Redeliver string

	// Proof is what the scheme was tried with that is not ours: vectors that are
	// public, or a vector of the provider's own library. "" means unproven.
	Proof string
	Notes string
}
