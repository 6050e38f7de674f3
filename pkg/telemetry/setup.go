package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// shutdownTimeout bounds the last export.
const shutdownTimeout = 5 * time.Second

// Variables of the OpenTelemetry specification that decide whether and how to export. The exporters read the
// variables for addresses, headers and certificates themselves, the batch processor its own (OTEL_BSP_*).
const (
	envDisabled       = "OTEL_SDK_DISABLED"
	envExporter       = "OTEL_TRACES_EXPORTER"
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	envTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
)

// Config names this process in its traces, metrics and logs.
type Config struct {
	// Service is "queue", "scheduler", "binder" or "descheduler", giving service.name berth-<service>, or "berth"
	// for a process that runs all of them.
	Service string
	// Instance is the member id, or another name that is unique among all processes.
	Instance string
	// Version of the binary; may be empty.
	Version string
	// Certificates are the files whose expiry is exported. Those with an empty path are left out.
	Certificates []CertificateFile
	// OldNames adds the names of the descheduler's metrics from before its version 0.34, as that program does.
	OldNames bool
}

// Telemetry is the telemetry of this process, as set up by Setup. It is safe for concurrent use until Shutdown.
type Telemetry struct {
	provider trace.TracerProvider
	shutdown func(context.Context) error
}

// Setup registers the metrics, and installs the tracer provider that the OTEL_* variables request as the global one.
// Without OTEL_TRACES_EXPORTER=otlp or an OTLP endpoint nothing is recorded. It does not wait for a connection: an
// unreachable collector costs spans, not time. It must be called once per process, with Shutdown at the end. An error
// names the variable that is wrong; metrics are then registered nevertheless.
func Setup(ctx context.Context, cfg Config) (*Telemetry, error) {
	Register()
	processCertificates.watch(cfg.Certificates)
	oldNames.Store(cfg.OldNames)
	initSeries(cfg.Service, cfg.Version)
	if cfg.Service == "" {
		return nil, errors.New("telemetry: Service is not set: want the name of the service")
	}
	// The variables are checked even if nothing is exported, so that a mistake shows before tracing is needed.
	sampler, err := samplerFromEnv(os.Getenv)
	if err != nil {
		return nil, err
	}
	exporter, err := exporterFromEnv(ctx, os.Getenv)
	if err != nil {
		return nil, err
	}
	if exporter == nil {
		otel.SetTracerProvider(noop.NewTracerProvider())
		return &Telemetry{provider: otel.GetTracerProvider(), shutdown: func(context.Context) error { return nil }}, nil
	}
	attributes, err := describe(ctx, cfg)
	if err != nil {
		return nil, err
	}
	// The processor exports in batches, from a goroutine of its own, and drops spans when its queue is full.
	provider := newProvider(sampler, sdktrace.NewBatchSpanProcessor(countingExporter{exporter}), attributes)
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { slog.Warn("traces not exported", KeyError, err) }))
	return &Telemetry{provider: provider, shutdown: func(ctx context.Context) error {
		podSampler.Store(nil)
		return provider.Shutdown(ctx)
	}}, nil
}

// newProvider returns a provider with sampler and the ids of idGenerator, and makes sampler the one that podContext
// uses.
func newProvider(
	sampler sdktrace.Sampler, processor sdktrace.SpanProcessor, attributes *resource.Resource,
) *sdktrace.TracerProvider {
	podSampler.Store(&sampler)
	return sdktrace.NewTracerProvider(
		sdktrace.WithSampler(sampler),
		sdktrace.WithIDGenerator(idGenerator{}),
		sdktrace.WithSpanProcessor(countingProcessor{}),
		sdktrace.WithSpanProcessor(processor),
		sdktrace.WithResource(attributes),
	)
}

// describe returns the attributes of this process; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.
func describe(ctx context.Context, cfg Config) (*resource.Resource, error) {
	name := cfg.Service
	if name != "berth" {
		name = "berth-" + name
	}
	attributes, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			semconv.ServiceName(name), semconv.ServiceInstanceID(cfg.Instance), semconv.ServiceVersion(cfg.Version)),
		resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("telemetry: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return attributes, nil
}

// Tracer returns the tracer of a package, named by its import path. Without an exporter its spans are no-ops.
func (t *Telemetry) Tracer(name string) trace.Tracer { return t.provider.Tracer(name) }

// Shutdown exports the spans that are waiting, for a few seconds at most, and stops.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	return t.shutdown(ctx)
}

// exporterFromEnv returns the exporter that the variables request, nil for none.
func exporterFromEnv(ctx context.Context, env func(string) string) (sdktrace.SpanExporter, error) {
	// The first variable that is set counts: those for traces precede the general ones.
	value := func(names ...string) string {
		for _, name := range names {
			if v := strings.TrimSpace(env(name)); v != "" {
				return v
			}
		}
		return ""
	}
	if strings.EqualFold(value(envDisabled), "true") {
		return nil, nil
	}
	// Without an exporter's name, an endpoint is enough.
	switch exporter := value(envExporter); exporter {
	case "otlp":
	case "none":
		return nil, nil
	case "":
		if value(envTracesEndpoint, envEndpoint) == "" {
			return nil, nil
		}
	default:
		return nil, fmt.Errorf("telemetry: %s is %q, want otlp or none", envExporter, exporter)
	}
	switch protocol := value(envTracesProtocol, envProtocol); protocol {
	case "grpc":
		return otlptracegrpc.New(ctx)
	case "http/protobuf", "":
		return otlptracehttp.New(ctx)
	default:
		return nil, fmt.Errorf("telemetry: %s or %s is %q, want grpc or http/protobuf",
			envTracesProtocol, envProtocol, protocol)
	}
}

// countingProcessor and countingExporter make the drops of the bounded queue between them visible: spans that ended
// and were never exported.
type countingProcessor struct{}

func (countingProcessor) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (countingProcessor) OnEnd(sdktrace.ReadOnlySpan)                     { spansEnded.Inc() }
func (countingProcessor) Shutdown(context.Context) error                  { return nil }
func (countingProcessor) ForceFlush(context.Context) error                { return nil }

// countingExporter counts the spans that are passed to the exporter, by result.
type countingExporter struct{ sdktrace.SpanExporter }

func (e countingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	result := "ok"
	if err != nil {
		result = "error"
	}
	spansExported.WithLabelValues(result).Add(float64(len(spans)))
	return err
}
