// Package operators runs two operators on Tarn's embedded API server and on a real one: those
// that the tutorials of kubebuilder (CronJob) and of operator-sdk (Memcached) build, written
// from the behaviour that these tutorials describe. They use controller-runtime, with its own cache and with that of
// package controllerruntime, and know
// nothing of Tarn. The tests check what the tutorials' tests check and, on the embedded
// server, what takes hours in real time or needs a crash at a chosen write.
package operators
