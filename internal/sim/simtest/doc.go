// Package simtest is what the tests of reflector, informer, controller and clientgo share: the
// embedded API server, whose objects a test changes one by one and between which and its readers it
// interferes, a record of what handlers received, and virtual time. Package sim, by contrast,
// compares a source with a naive model of a server.
//
//	func TestAHandlerGetsWhatChanged(t *testing.T) {
//		simtest.Each(t, func(t *testing.T, via simtest.Via) { // protobuf, json
//			srv := simtest.Pods("shop/web") // at version 101
//			pods := newInformer(t, srv.Source(via), podOptions{})
//			var r simtest.Recorder
//			subscribe(t, pods, r.PodHandler(), podSub{})
//			start(t, pods)
//			simtest.Advance(time.Minute)
//			srv.Cut(io.ErrUnexpectedEOF)
//			srv.Set("shop/web") // 102
//			simtest.Advance(time.Minute)
//			simtest.Want(t, "calls", r.Take(), []string{"add! shop/web@101", "update shop/web@101>102"})
//		})
//	}
//
// The nouns:
//
//   - [Server] is one resource of a package apiserver's server and a source for a reflector, in one
//     encoding or, with [Server.Source], another. [Server.Client] writes to it.
//   - [Stream] is one watch. A test may write any event to it.
//   - [Recorder] has a line for each call of a handler.
//   - [LeaseLink] is one process's connection to its lease, which a test interrupts.
//   - [Each] runs a test for each [Via], [Advance] lets virtual time pass, [Want] compares.
package simtest
