package usage

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

// answers is a server that gives every request the same answer.
type answers []byte

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": []string{"application/json"}},
		Body: io.NopCloser(bytes.NewReader(a)), Request: r,
	}, nil
}

// FuzzAnswers: whatever a metrics server answers, there is a value for each node or an error.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(vector(`{"metric":{"instance":"a"},"value":[1,"0.5"]}`)))
	f.Add([]byte(vector(`{"metric":{},"value":[1,"NaN"]}`)))
	f.Add([]byte(`{"status":"success","data":{"resultType":"matrix","result":[]}}`))
	f.Add([]byte(`{"status":"success"}`))
	f.Add([]byte(`{"status":"success","data":null}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		limited := bounded{answers(answer), maxAnswer}
		client, err := api.NewClient(api.Config{Address: "http://127.0.0.1", RoundTripper: limited})
		if err != nil {
			t.Fatal(err)
		}
		values, err := ask(context.Background(), promv1.NewAPI(client), "up", now)
		if err != nil && values != nil {
			t.Errorf("values %v beside the error %v", values, err)
		}
	})
}
