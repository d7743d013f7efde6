// Package tracing reports reconciles and API requests to OpenTelemetry, and adds trace ids to
// logs.
//
//	tracer := tracing.New(otel.GetTracerProvider())
//	client, err := wire.New(config, wire.Options{Observers: []wire.Observer{tracer.Request}})
//	web, err := controller.New("web", reconcile, controller.Options[object.Key]{
//		Observers: []controller.Observer{tracer.Reconcile},
//		Logger:    slog.New(tracing.Handler(handler)),
//	}, sources…)
//
// A reconcile is a span "reconcile NAME", with the attributes controller.name, controller.key,
// controller.attempt and controller.outcome, and k8s.namespace.name and k8s.object.name for the
// key of an object. Errors, terminal errors and panics have the status Error.
//
// An attempt of a request is a client span such as "LIST pods" or "UPDATE deployments.apps/status",
// with the attributes of OpenTelemetry's HTTP conventions and the object's namespace and name. It
// is a child of the reconcile's span if it was sent with the reconcile's context. The span of a
// watch ends when the stream is open. No trace headers are sent to the API server.
//
// The package uses OpenTelemetry's API only. The program chooses SDK, sampler and exporter.
package tracing
