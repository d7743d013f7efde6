package console

import "github.com/tarnproject/tarn/status"

// The report that the console shows.
type (
	// Status is a report on a cluster.
	Status = status.Status
	// MirrorStatus is a report on a mirror.
	MirrorStatus = status.MirrorStatus
)
