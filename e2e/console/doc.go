// Package console tests the page of the console in a headless Chromium: a cluster mirrors an
// embedded API server, its handler listens on this machine, and the browser opens the page. It is
// a module of its own, so that programs that use Tarn do not depend on chromedp.
//
//	make browser
//	go test . -screenshots ../../docs/images
//	go test . -run Heap -heap 5m -v
//	go test . -run Load -load 1m -v -timeout 30m
package console
