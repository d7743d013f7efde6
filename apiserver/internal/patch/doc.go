// Package patch applies JSON, merge and strategic merge patches, within the limits of kube-apiserver.
package patch
