package sandbox

import (
	"encoding/hex"
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// RFC 4231, test case 2.
func TestMACOfTheRFC(t *testing.T) {
	const want = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
	if got := hex.EncodeToString(mac([]byte("Jefe"), []byte("what do ya want for nothing?"))); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// openssl signs the same message alike.
func TestSignatureByOpenSSL(t *testing.T) {
	const secret, timestamp, nonce, body = "a secret of the sandbox's", "1903860000", "n-1", `{"amount":4750,"about":"代金券"}`
	cmd := exec.Command("openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt", "hexkey:"+hex.EncodeToString([]byte(secret)), "-r")
	cmd.Stdin = strings.NewReader(timestamp + "\n" + nonce + "\n" + body)
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("no openssl")
	}
	if err != nil {
		t.Fatal(err)
	}
	want, _, _ := strings.Cut(string(out), " ")
	if got := signature([]byte(secret), timestamp, nonce, []byte(body)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
