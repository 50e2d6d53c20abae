//go:build !unix

package ingest

// readNow is nil where connections cannot wait outside.
var readNow func(fd uintptr, p []byte) (int, error)
