package null

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// namespace is that of the pods.
const namespace = "default"

// poster posts binds and events: what the standard library's client costs, and the encoding of the objects.
type poster struct {
	client *http.Client
	url    string
	encode runtime.Encoder
}

func newPoster(kubeconfig string) (*poster, error) {
	access, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(access)
	if err != nil {
		return nil, err
	}
	return &poster{client: client, url: access.Host, encode: protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)}, nil
}

func (p *poster) bind(ctx context.Context, pod, node string) error {
	return p.post(ctx, "/api/v1/namespaces/"+namespace+"/pods/"+pod+"/binding", &corev1.Binding{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Binding"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	})
}

func (p *poster) event(ctx context.Context, pod, node string) error {
	return p.post(ctx, "/apis/events.k8s.io/v1/namespaces/"+namespace+"/events", &eventsv1.Event{
		TypeMeta:            metav1.TypeMeta{APIVersion: "events.k8s.io/v1", Kind: "Event"},
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, Name: pod + ".0"},
		EventTime:           metav1.NewMicroTime(time.Now()),
		ReportingController: "null", ReportingInstance: "null-0", Action: "Binding", Reason: "Scheduled",
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: pod},
		Note:      fmt.Sprintf("Successfully assigned %s/%s to %s", namespace, pod, node), Type: corev1.EventTypeNormal,
	})
}

func (p *poster) post(ctx context.Context, path string, object runtime.Object) error {
	var body bytes.Buffer
	if err := p.encode.Encode(object, &body); err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+path, &body)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", runtime.ContentTypeProtobuf)
	request.Header.Set("Accept", runtime.ContentTypeProtobuf)
	answer, err := p.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was read
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusCreated {
		return fmt.Errorf("POST %s: %s", path, answer.Status)
	}
	return nil
}
