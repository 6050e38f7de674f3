package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	_ "github.com/berth-scheduler/berth/pkg/seedtest" // seed of rapid
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const uid = "0b9e8c6a-5d3c-4f4e-9a55-0d4c6c0b2f11"

// environment returns a lookup over pairs of names and values.
func environment(pairs ...string) func(string) string {
	values := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return values[name] }
}

// record returns a tracer whose spans the exporter keeps.
func record(t *testing.T, env ...string) (trace.Tracer, *tracetest.InMemoryExporter) {
	t.Helper()
	sampler, err := samplerFromEnv(environment(env...))
	if err != nil {
		t.Fatal(err)
	}
	exporter := tracetest.NewInMemoryExporter()
	provider := newProvider(sampler, sdktrace.NewSimpleSpanProcessor(exporter), resource.Empty())
	t.Cleanup(func() {
		podSampler.Store(nil)
		if err := provider.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return provider.Tracer("test"), exporter
}

func TestIDs(t *testing.T) {
	if got, want := TraceID(uid).String(), strings.ReplaceAll(uid, "-", ""); got != want {
		t.Errorf("trace id %s, want %s", got, want)
	}
	if got, want := RootSpanID(uid).String(), "fd45a2a0b3fe9eec"; got != want {
		t.Errorf("root span id %s, want %s", got, want)
	}
	for _, odd := range []string{
		"", "mirror-pod", "00000000-0000-0000-0000-000000000000", uid + "0", "zb9e8c6a-5d3c-4f4e-9a55-0d4c6c0b2f11",
	} {
		if !TraceID(odd).IsValid() || !RootSpanID(odd).IsValid() || TraceID(odd) == TraceID(uid) {
			t.Errorf("uid %q gives trace id %s", odd, TraceID(odd))
		}
	}
}

// TestPath checks that steps written by any service, in any order, and the root written last make one tree.
func TestPath(t *testing.T) {
	tracer, exporter := record(t)
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ctx, attempt := StartPodSpan(t.Context(), tracer, PodSpan{
		UID: uid, Name: "attempt", Start: begin.Add(time.Second), Attributes: []attribute.KeyValue{attribute.Int("nodes", 7)},
	})
	_, filter := StartPodSpan(ctx, tracer, PodSpan{UID: uid, Name: "filter"})
	filter.End()
	attempt.End(trace.WithTimestamp(begin.Add(2 * time.Second)))
	_, other := StartPodSpan(ctx, tracer, PodSpan{UID: "another", Name: "queued"})
	other.End()
	EmitRoot(ctx, tracer, Root{UID: uid, Namespace: "shop", Name: "cart", Start: begin, End: begin.Add(3 * time.Second)})

	spans := map[string]tracetest.SpanStub{}
	for _, span := range exporter.GetSpans() {
		spans[span.Name] = span
	}
	root := spans["pod"]
	if root.SpanContext.TraceID() != TraceID(uid) || root.SpanContext.SpanID() != RootSpanID(uid) ||
		root.Parent.IsValid() || !root.StartTime.Equal(begin) || !root.EndTime.Equal(begin.Add(3*time.Second)) {
		t.Errorf("root: %+v", root)
	}
	for child, parent := range map[string]trace.SpanID{
		"attempt": RootSpanID(uid), "filter": spans["attempt"].SpanContext.SpanID(), "queued": RootSpanID("another"),
	} {
		if got := spans[child].Parent.SpanID(); got != parent {
			t.Errorf("parent of %s is %s, want %s", child, got, parent)
		}
	}
	if got := spans["filter"].SpanContext.TraceID(); got != TraceID(uid) {
		t.Errorf("filter is in trace %s", got)
	}
	if got := spans["attempt"]; !got.StartTime.Equal(begin.Add(time.Second)) || len(got.Attributes) != 2 ||
		string(got.Attributes[0].Key) != "k8s.pod.uid" || got.Attributes[0].Value.AsString() != uid {
		t.Errorf("attempt: %+v", got)
	}
}

// TestSampling checks that the configured share of pods is recorded, even if their UIDs are far from uniform, and
// that steps and root agree.
func TestSampling(t *testing.T) {
	for _, name := range []string{"traceidratio", "parentbased_traceidratio"} {
		tracer, exporter := record(t, envSampler, name, envSamplerArg, "0.25")
		const pods = 4000
		for i := range pods {
			uid := fmt.Sprintf("%08x-0000-4000-8000-000000000000", i) // counts up: the worst kind of generator
			_, span := StartPodSpan(t.Context(), tracer, PodSpan{UID: uid, Name: "step"})
			span.End()
			EmitRoot(t.Context(), tracer, Root{UID: uid, Start: time.Unix(1, 0), End: time.Unix(2, 0)})
		}
		perTrace := map[trace.TraceID]int{}
		for _, span := range exporter.GetSpans() {
			perTrace[span.SpanContext.TraceID()]++
		}
		for id, spans := range perTrace {
			if spans != 2 {
				t.Fatalf("%s: %d spans of trace %s, want step and root", name, spans, id)
			}
		}
		if share := float64(len(perTrace)) / pods; share < 0.22 || share > 0.28 {
			t.Errorf("%s: %.3f of all pods recorded, want about 0.25", name, share)
		}
	}
}

func TestSamplerFromEnv(t *testing.T) {
	for _, c := range []struct {
		name, arg, want string // want is the description, or part of the error
	}{
		{"", "", "ParentBased{root:AlwaysOnSampler"},
		{"always_on", "", "AlwaysOnSampler"},
		{"Always_Off", "", "AlwaysOffSampler"},
		{"traceidratio", "", "TraceIDHashRatio{1}"},
		{"traceidratio", "0.5", "TraceIDHashRatio{0.5}"},
		{"parentbased_traceidratio", "0", "ParentBased{root:TraceIDHashRatio{0}"},
		{"parentbased_always_off", "", "ParentBased{root:AlwaysOffSampler"},
		{"jaeger_remote", "", `OTEL_TRACES_SAMPLER is "jaeger_remote", want`},
		{"traceidratio", "1.5", `OTEL_TRACES_SAMPLER_ARG is "1.5", want a number from 0 to 1`},
		{"traceidratio", "NaN", `OTEL_TRACES_SAMPLER_ARG is "NaN"`},
		{"traceidratio", "half", `OTEL_TRACES_SAMPLER_ARG is "half"`},
	} {
		sampler, err := samplerFromEnv(environment(envSampler, c.name, envSamplerArg, c.arg))
		got := fmt.Sprint(err)
		if err == nil {
			got = sampler.Description()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %s, want %s", c.name, c.arg, got, c.want)
		}
	}
}

func TestRatioEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var id trace.TraceID
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		p := sdktrace.SamplingParameters{ParentContext: context.WithoutCancel(t.Context()), TraceID: id}
		if newRatioSampler(0).ShouldSample(p).Decision != sdktrace.Drop {
			t.Error("ratio 0 records")
		}
		if newRatioSampler(1).ShouldSample(p).Decision != sdktrace.RecordAndSample {
			t.Error("ratio 1 drops")
		}
	})
}

func TestTraceParent(t *testing.T) {
	if got := TraceParent(t.Context()); got != "" {
		t.Errorf("traceparent without a span: %q", got)
	}
	tracer, _ := record(t)
	ctx, span := StartPodSpan(t.Context(), tracer, PodSpan{UID: uid, Name: "offer"})
	defer span.End()
	text := TraceParent(ctx)
	if want := "00-" + TraceID(uid).String() + "-" + span.SpanContext().SpanID().String() + "-01"; text != want {
		t.Errorf("traceparent %q, want %q", text, want)
	}
	got := trace.SpanContextFromContext(WithTraceParent(t.Context(), text))
	if !got.Equal(span.SpanContext().WithRemote(true)) {
		t.Errorf("came back as %+v", got)
	}
	for _, bad := range []string{"", "nonsense", text[:20]} {
		if trace.SpanContextFromContext(WithTraceParent(t.Context(), bad)).IsValid() {
			t.Errorf("traceparent %q names a span", bad)
		}
	}
}

func TestExporterFromEnv(t *testing.T) {
	for _, c := range []struct {
		env  []string
		some bool
		want string
	}{
		{env: nil},
		{env: []string{envExporter, "none", envEndpoint, "http://127.0.0.1:1"}},
		{env: []string{envDisabled, "true", envExporter, "otlp"}},
		{env: []string{envEndpoint, "http://127.0.0.1:1"}, some: true},
		{
			env:  []string{envTracesEndpoint, "http://127.0.0.1:1", envTracesProtocol, "grpc", envProtocol, "http/json"},
			some: true,
		},
		{env: []string{envExporter, "otlp"}, some: true},
		{env: []string{envExporter, "zipkin"}, want: `OTEL_TRACES_EXPORTER is "zipkin", want otlp or none`},
		{env: []string{envExporter, "otlp", envProtocol, "http/json"}, want: `is "http/json", want grpc or http/protobuf`},
	} {
		exporter, err := exporterFromEnv(t.Context(), environment(c.env...))
		right := err == nil && c.want == "" || err != nil && c.want != "" && strings.Contains(err.Error(), c.want)
		if (exporter != nil) != c.some || !right {
			t.Errorf("%v: exporter %T, error %v", c.env, exporter, err)
		}
		if exporter != nil {
			if err := exporter.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// receiver is an OTLP trace collector that passes on the requests it receives.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	got chan *collector.ExportTraceServiceRequest
}

func (r receiver) Export(
	_ context.Context, request *collector.ExportTraceServiceRequest,
) (*collector.ExportTraceServiceResponse, error) {
	r.got <- request
	return &collector.ExportTraceServiceResponse{}, nil
}

// ServeHTTP implements the HTTP form of the protocol.
func (r receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	message := &collector.ExportTraceServiceRequest{}
	if err == nil && request.URL.Path == "/v1/traces" {
		err = proto.Unmarshal(body, message)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
	r.got <- message
}

func TestExportGRPC(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := receiver{got: make(chan *collector.ExportTraceServiceRequest, 1)}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	t.Setenv(envTracesProtocol, "grpc")
	checkExport(t, "http://"+listener.Addr().String(), r)
}

func TestExportHTTP(t *testing.T) {
	r := receiver{got: make(chan *collector.ExportTraceServiceRequest, 1)}
	server := httptest.NewServer(r)
	defer server.Close()
	checkExport(t, server.URL, r)
}

// checkExport exports one pod's path through the whole pipeline, set up from the environment.
func checkExport(t *testing.T, endpoint string, r receiver) {
	t.Helper()
	t.Setenv(envEndpoint, endpoint)
	tel, err := Setup(t.Context(), Config{Service: "queue", Instance: "queue-abc", Version: "v1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	_, span := StartPodSpan(t.Context(), tel.Tracer("test"), PodSpan{UID: uid, Name: "queued"})
	span.End()
	EmitRoot(t.Context(), tel.Tracer("test"), Root{UID: uid, Start: time.Unix(1, 0), End: time.Unix(2, 0)})
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	request := <-r.got
	attributes := map[string]string{}
	for _, kv := range request.GetResourceSpans()[0].GetResource().GetAttributes() {
		attributes[kv.GetKey()] = kv.GetValue().GetStringValue()
	}
	for key, want := range map[string]string{
		"service.name": "berth-queue", "service.instance.id": "queue-abc", "service.version": "v1.2.3",
		"telemetry.sdk.language": "go",
	} {
		if attributes[key] != want {
			t.Errorf("resource attribute %s is %q, want %q", key, attributes[key], want)
		}
	}
	var spans []*tracepb.Span
	for _, scope := range request.GetResourceSpans()[0].GetScopeSpans() {
		spans = append(spans, scope.GetSpans()...)
	}
	root, id := RootSpanID(uid), TraceID(uid)
	if len(spans) != 2 || string(spans[0].GetParentSpanId()) != string(root[:]) ||
		string(spans[1].GetSpanId()) != string(root[:]) || string(spans[1].GetTraceId()) != string(id[:]) {
		t.Errorf("received %v", spans)
	}
}

// TestSetupWithoutExporter checks that without an exporter nothing is recorded, and every call works.
func TestSetupWithoutExporter(t *testing.T) {
	tel, err := Setup(t.Context(), Config{Service: "binder"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := StartPodSpan(t.Context(), tel.Tracer("test"), PodSpan{UID: uid, Name: "bind"})
	if span.IsRecording() || trace.SpanContextFromContext(ctx).IsSampled() {
		t.Error("records without an exporter")
	}
	span.End()
	EmitRoot(ctx, tel.Tracer("test"), Root{UID: uid, Start: time.Unix(1, 0), End: time.Unix(2, 0)})
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := Setup(t.Context(), Config{}); err == nil || !strings.Contains(err.Error(), "Service") {
		t.Errorf("setup without a service: %v", err)
	}
}

// TestDeadCollector checks that Setup and spans do not wait for an unreachable collector.
func TestDeadCollector(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }() // accepts no connection and answers nothing
	t.Setenv(envEndpoint, "http://"+listener.Addr().String())
	t.Setenv(envProtocol, "grpc")
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "100") // milliseconds for one batch
	tel, err := Setup(t.Context(), Config{Service: "queue"})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for range 10_000 {
		_, span := StartPodSpan(t.Context(), tel.Tracer("test"), PodSpan{UID: uid, Name: "queued"})
		span.End()
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("10,000 spans took %v with a dead collector", took)
	}
	begin = time.Now()
	_ = tel.Shutdown(t.Context()) // the error may report that nothing was exported
	if took := time.Since(begin); took > 2*shutdownTimeout {
		t.Errorf("shutdown took %v with a dead collector", took)
	}
}

func TestLogger(t *testing.T) {
	var out strings.Builder
	logger, err := NewLogger(&out, FormatJSON, slog.LevelWarn)
	if err != nil {
		t.Fatal(err)
	}
	logger.Info("not shown")
	logger.Warn("shown", "pod", "a")
	redirectKlog(logger)
	t.Cleanup(klog.ClearLogger)
	klog.InfoS("not shown either")
	klog.ErrorS(nil, "from klog", "node", "b")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"msg":"shown","pod":"a"`) ||
		!strings.Contains(lines[1], `"node":"b"`) {
		t.Errorf("logged %q", lines)
	}
	if _, err := NewLogger(&out, "xml", slog.LevelInfo); err == nil || !strings.Contains(err.Error(), `"xml"`) {
		t.Errorf("format xml: %v", err)
	}
	if _, err := ParseLevel("loud"); err == nil || !strings.Contains(err.Error(), `"loud"`) {
		t.Errorf("level loud: %v", err)
	}
	if level, err := ParseLevel("WARN"); err != nil || level != slog.LevelWarn {
		t.Errorf("level WARN: %v, %v", level, err)
	}
}
