// Package adapters holds the tests that programs which people have, one with generated
// informers in the way of sample-controller and one of controller-runtime, run on Tarn's
// adapters as they run without: on the embedded API server and on a real one, through a
// restart of it. What they leave in the cluster is compared.
package adapters
