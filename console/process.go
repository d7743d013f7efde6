package console

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// processJSON are figures of the process.
type processJSON struct {
	Version    string  `json:"version"`
	HeapBytes  uint64  `json:"heapBytes"`
	Goroutines int     `json:"goroutines"`
	CPUSeconds float64 `json:"cpuSeconds"`
}

func process() processJSON {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	return processJSON{Version: version(), HeapBytes: heap[0].Value.Uint64(), Goroutines: runtime.NumGoroutine(), CPUSeconds: cpuTime().Seconds()}
}

// version returns the version of Tarn that is linked into the program.
var version = sync.OnceValue(func() string {
	const module = "github.com/tarnproject/tarn"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if info.Main.Path == module {
		return info.Main.Version
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return "unknown"
})
