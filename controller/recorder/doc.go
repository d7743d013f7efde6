// Package recorder records Kubernetes events through package wire, without a generated
// clientset.
//
//	events := recorder.New(client, "web", recorder.Options{})
//	…
//	events.Normal(deployment, "Scaled", "scaled from %d to %d replicas", 1, 3)
//	…
//	return controller.Run(ctx, deployments, events, web)
//
// Events are written as events.k8s.io/v1, which kubectl shows in "get events" and "describe".
// The program needs permission to create and patch events in that group.
//
// # Fewer requests than events
//
// Recording an event never blocks and never fails. Before it is sent:
//
//   - Equal events, those with the same object, related object, type, reason, action and
//     note, are one Event with a series as long as no more than 6 minutes pass between two of
//     them. The series is updated after 10 seconds and then ever less often, down to once in
//     5 minutes; each update has the count up to then.
//   - After 10 different notes about the same object with the same type and reason, further
//     ones become one series with the note "(combined from similar events): " and the first
//     of them, until there has been none for 10 minutes.
//   - For each object and type there are 25 requests and then one every 5 minutes. An event
//     that would need a new Event beyond that is dropped. The update of a series waits.
//
// These are the limits of client-go's recorder. [Recorder.Status] counts what was dropped.
//
// Events are not fenced: a process that has just lost leadership or its keys still sends what was
// recorded.
//
// correlate.go decides what becomes of an event, send.go writes to the API.
package recorder
