package doctor

import (
	"crypto/rand"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"tandian/internal/kit/queue/rabbit"
)

// The broker is everybody's: only users of our own are made there.
func TestRabbitMQ(t *testing.T) {
	server := os.Getenv("TANDIAN_RABBITMQ_URL")
	if server == "" {
		t.Skip("TANDIAN_RABBITMQ_URL is not set")
	}
	user := "doctor-" + rand.Text()
	ctl(t, "add_user", user, "pa55word-7")
	t.Cleanup(func() { ctl(t, "delete_user", user) })
	ctl(t, "set_permissions", "-p", "/", user, `^(order|voucher\.order)\.`, `^$`, ".*")
	as := func(name, password, vhost string) string {
		u, err := url.Parse(server)
		if err != nil {
			t.Fatal(err)
		}
		u.User, u.Path, u.RawPath = url.UserPassword(name, password), "/"+vhost, "/"+url.PathEscape(vhost)
		return u.String()
	}
	topology := rabbit.Orders()
	for _, tt := range []struct {
		name, url string
		want      []want
	}{
		{"as it should be", server, nil},
		{"wrong password", as(user, "pa55word-wrong", "/"), []want{{"rabbitmq", Failed, "refuses user " + user, "--rabbitmq-url", false}}},
		{"no such vhost", as("guest", "guest", "none"), []want{{"rabbitmq", Failed, `no vhost "none" for user guest`, "rabbitmqctl add_vhost 'none'", false}}},
		{"missing permission", as(user, "pa55word-7", "/"), []want{{"rabbitmq permissions", Failed, "ACCESS_REFUSED", "rabbitmqctl set_permissions -p '/' '" + user + "'", false}}},
		{"nobody listens", "amqp://guest:pa55word@" + closedPort + "/", []want{{"rabbitmq", Failed, "connection refused", "start the server", true}}},
		{"not a URL", "amqp://guest:pa55word@host:port/", []want{{"rabbitmq", Failed, "can't be read", "amqp://user:password@host:port/vhost", false}}},
	} {
		t.Run(tt.name, func(t *testing.T) { expect(t, RabbitMQ(tt.url, topology), tt.want...) })
	}
	t.Run("a start goes on without it", func(t *testing.T) {
		expect(t, Optional(RabbitMQ("amqp://guest:pa55word@"+closedPort+"/", topology)), want{"rabbitmq", Warning, "connection refused", "start the server", false})
	})
}

func ctl(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(filepath.Join("..", "..", "scripts", "services"), append([]string{"ctl"}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}
