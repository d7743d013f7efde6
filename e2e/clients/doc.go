// Package clients tests that common clients (kubectl, client-go's clientset, dynamic client
// and informers, controller-runtime's manager) work on Tarn's embedded API server as they do
// on a real one: every test runs on both. It also tests that kubectl shows the events of package
// recorder, and that the commands that wait for workloads end with package apiserver/workloads.
package clients
