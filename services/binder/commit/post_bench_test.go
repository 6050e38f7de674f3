package commit

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// serverVariable makes this test's binary an API server of its own, so that a benchmark measures the client alone.
const serverVariable = "BERTH_TEST_API_SERVER"

// serveAlone serves HTTPS until its standard input ends, and prints its address and certificate. It answers as the API
// server does: in protobuf, a Binding by a Status and an event by itself.
func serveAlone() int {
	encoder := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	status, err := runtime.Encode(scheme.Codecs.EncoderForVersion(encoder, corev1.SchemeGroupVersion),
		&metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated})
	if err != nil {
		return 1
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasSuffix(r.URL.Path, "/binding") {
			body = status
		}
		h := w.Header()
		h.Set("Audit-Id", "2f3c5a0e-4d0b-4f9c-9a48-0d4c5a1d3a7e")
		h.Set("Cache-Control", "no-cache, private")
		h.Set("Content-Type", runtime.ContentTypeProtobuf)
		h.Set("X-Kubernetes-Pf-Flowschema-Uid", "7b1e4f63-9a57-4ef1-a2b3-7d6c2a9f1f11")
		h.Set("X-Kubernetes-Pf-Prioritylevel-Uid", "0e8f2a91-8d3c-4c3b-8ac5-62f4a1d2b777")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	}))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	server.StartTLS()
	fmt.Println(server.URL)
	_, _ = os.Stdout.Write(certificateOf(server))
	_ = os.Stdout.Close()
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// certificateOf returns the certificate of a server, in PEM.
func certificateOf(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// serverProcess starts an API server in a process of its own, and returns the configuration of its clients.
func serverProcess(b *testing.B) *rest.Config {
	b.Helper()
	server := exec.CommandContext(b.Context(), os.Args[0])
	server.Env = append(os.Environ(), serverVariable+"=1", "GOMAXPROCS=1")
	stdin, err := server.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err = server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = stdin.Close()
		_ = server.Wait()
	})
	out, err := io.ReadAll(stdout)
	if err != nil {
		b.Fatal(err)
	}
	address, certificate, _ := strings.Cut(string(out), "\n")
	return &rest.Config{
		Host: address, BearerToken: strings.Repeat("token", 200),
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte(certificate)},
	}
}

// processorTime returns the processor time of this process so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// perRequest runs do in as many goroutines as a binder has workers, and reports the processor time of this process by
// request, which the server's is no part of.
func perRequest(b *testing.B, workers int, do func(n int)) {
	b.Helper()
	for n := range 50 * workers { // connections, pools and tables of headers
		if n%10 == 0 {
			do(-n)
		}
	}
	queue := make(chan int)
	done := make(chan struct{})
	b.ReportAllocs()
	b.ResetTimer()
	begin := processorTime(b)
	for range workers {
		go func() {
			for n := range queue {
				do(n)
			}
			done <- struct{}{}
		}()
	}
	for n := range b.N {
		queue <- n
	}
	close(queue)
	for range workers {
		<-done
	}
	b.ReportMetric(float64((processorTime(b)-begin).Microseconds())/float64(b.N), "cpu-µs/op")
}

func benchExecutor(b *testing.B) *Executor {
	b.Helper()
	api, err := Connect(serverProcess(b), 0, 0, clock.RealClock{})
	if err != nil {
		b.Fatal(err)
	}
	return New(1, Deps{API: api, Logger: slog.New(slog.DiscardHandler), Clock: clock.RealClock{}})
}

func benchPod(n int) events.PodRef {
	return events.PodRef{
		Namespace: "benchmark", Name: fmt.Sprintf("deployment-6d4cf56db6-%05d", n),
		UID: fmt.Sprintf("5d7f2a91-8d3c-4c3b-8ac5-%012d", n&0xffffffff),
	}
}

func BenchmarkBind(b *testing.B) {
	for _, workers := range []int{1, 16, 128} {
		b.Run(fmt.Sprint("workers=", workers), func(b *testing.B) {
			x := benchExecutor(b)
			perRequest(b, workers, func(n int) {
				a := x.bindings.postBinding(b.Context(), effect.Bind{
					Pod: benchPod(n), NodeName: "node-00042", ResourceVersion: uint64(12_345_678 + n), Token: 9,
				})
				if a.Result != effect.Done {
					b.Error(a)
				}
			})
		})
	}
}

func BenchmarkEvent(b *testing.B) {
	for _, writers := range []int{1, eventWriters} {
		b.Run(fmt.Sprint("writers=", writers), func(b *testing.B) {
			x := benchExecutor(b)
			now := time.Now()
			perRequest(b, writers, func(n int) {
				pod := benchPod(n)
				e := x.reporter.event(waitingReport{since: now, Report: effect.Report{
					Pod: pod, SchedulerName: "default-scheduler", Type: "Normal", Reason: "Scheduled", Action: "Binding",
					Note: "Successfully assigned benchmark/" + pod.Name + " to node-00042", Once: true,
				}})
				if !x.reporter.answered(b.Context(), e) {
					b.Error("no answer")
				}
			})
		})
	}
}
