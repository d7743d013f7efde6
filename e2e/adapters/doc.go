// Package adapters tests that existing programs run on Tarn's adapters as they do without
// them: one with generated informers, like sample-controller, and one on controller-runtime.
// They run on the embedded API server and on a real one, through a restart of it, and the
// objects that they leave in the cluster are compared.
package adapters
