package ingest

// IsWhole is what the door takes for a request.
var IsWhole = isWhole
