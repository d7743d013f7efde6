// Package simtest is what the tests of reflector, informer, controller and clientgo share: an API
// server that a test changes object by object, a record of what handlers received, and
// virtual time. Package sim, by contrast, changes its server at random.
//
//	func TestAHandlerGetsWhatChanged(t *testing.T) {
//		simtest.Each(t, func(t *testing.T, via simtest.Via) { // direct, protobuf, json
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
//   - [Server] has the objects of one resource. It is a source for a reflector, the API of
//     a controller's client, and, with [Server.Source], bytes that package wire decodes.
//   - [Stream] is one watch. A test may write any event to it.
//   - [Recorder] has a line for each call of a handler.
//   - [LeaseLink] is one process's connection to its lease, which a test interrupts.
//   - [Each] runs a test for each [Via], [Advance] lets virtual time pass, [Want] compares.
package simtest
