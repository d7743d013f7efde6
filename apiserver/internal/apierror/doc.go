// Package apierror has errors of no particular resource, in kube-apiserver's words.
package apierror
