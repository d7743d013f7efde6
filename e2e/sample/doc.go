// Package sample is a program as people have it who write for client-go: a custom resource
// ([Foo]), the clientset, informers and listers that the code generators would make of it,
// and a controller in the way of sample-controller. None of it knows of Tarn.
//
// Tests run it with client-go under it and with Tarn under it, on the embedded API server
// and on a real control plane. It is nothing to build on.
package sample
