package source

import (
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
)

// hosts are the places where code lies, and those that build and deploy it.
func hosts() map[string]Preset {
	return map[string]Preset{
		// GitHub keeps the id when a person redelivers. The older
		// X-Hub-Signature, SHA-1, comes beside the new one and is not looked at.
		"github": {
			Scheme:       signature.GitHub(),
			ID:           []Locator{inHeader("X-GitHub-Delivery")},
			Type:         []Locator{inHeader("X-GitHub-Event"), inBody("/action")},
			KeepHeaders:  []string{"X-GitHub-Event", "X-GitHub-Hook-ID"},
			Content:      []Kind{JSON, Form},
			PayloadField: "payload",
			Replay:       time.Hour,
			About: About{
				Title:     "GitHub",
				Page:      "https://docs.github.com/en/webhooks",
				Setup:     "Settings → Webhooks → Add webhook: the address, either content type, and the secret",
				Timeout:   "10 s",
				Retries:   "none",
				Redeliver: "ask: Recent Deliveries → Redeliver, or POST /repos/OWNER/REPO/hooks/HOOK/deliveries/ID/attempts",
				Proof:     "vectors github: octokit/webhooks-methods.js, google/go-github, drone/go-scm, GitHub's documentation",
			},
		},
		// The token is sent as it is, so it says who posts and nothing about the
		// body. X-Gitlab-Webhook-UUID is the subscription's, and checkout_sha is
		// all zeros or null when a branch goes: neither is an id. One
		// X-Gitlab-Event-UUID is shared by the hooks that a hook sets off. The
		// headers say all that is needed, so nothing is asked of the body.
		"gitlab": {
			Scheme:      tokenIn("X-Gitlab-Token"),
			ID:          []Locator{either(inHeader("Idempotency-Key"), inHeader("X-Gitlab-Event-UUID"))},
			Type:        []Locator{inHeader("X-Gitlab-Event")},
			Content:     []Kind{Opaque},
			KeepHeaders: []string{"X-Gitlab-Event", "X-Gitlab-Instance"},
			Replay:      time.Hour,
			About: About{
				Title:     "GitLab",
				Page:      "https://docs.gitlab.com/user/project/integrations/webhooks/",
				Setup:     "Settings → Webhooks → Add new webhook: the address, and the secret as secret token",
				Timeout:   "10 s",
				Retries:   "none; 4 failures in a row switch the hook off for a minute up to a day, 40 for good",
				Redeliver: "ask: Edit the webhook → Recent events → View details → Resend Request",
				Proof:     "vectors gitlab: drone/go-scm",
				Notes:     "The token covers no body: use https all the way.",
			},
		},
		// X-Hook-UUID is the subscription's.
		"bitbucket": {
			Scheme:      hmacHex("X-Hub-Signature", "sha256="),
			ID:          []Locator{inHeader("X-Request-UUID")},
			Type:        []Locator{inHeader("X-Event-Key")},
			KeepHeaders: []string{"X-Event-Key", "X-Attempt-Number"},
			Replay:      time.Hour,
			About: About{
				Title:     "Bitbucket Cloud",
				Page:      "https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/",
				Setup:     "Repository settings → Webhooks → Add webhook: the address and the secret",
				Timeout:   "10 s",
				Retries:   "2",
				Redeliver: "ask: View requests → Resend",
				Proof:     "vectors bitbucket/jira: Atlassian's documentation",
			},
		},
		"bitbucket-server": {
			Scheme:      hmacHex("X-Hub-Signature", "sha256="),
			ID:          []Locator{inHeader("X-Request-Id")},
			Type:        []Locator{inHeader("X-Event-Key")},
			KeepHeaders: []string{"X-Event-Key"},
			Replay:      time.Hour,
			About: About{
				Title:   "Bitbucket Server and Data Center",
				Page:    "https://confluence.atlassian.com/bitbucketserver/manage-webhooks-938025878.html",
				Setup:   "Repository settings → Webhooks → Create webhook: the address and the secret",
				Retries: "none",
				Proof:   "vectors bitbucket-server: go-playground/webhooks",
				Notes:   "The test of the settings page has no id, so it is answered 400; the hook works all the same.",
			},
		},
		"gitea": {
			Scheme:       hmacHex("X-Gitea-Signature", ""),
			ID:           []Locator{inHeader("X-Gitea-Delivery")},
			Type:         []Locator{inHeader("X-Gitea-Event"), optional(inBody("/action"))},
			KeepHeaders:  []string{"X-Gitea-Event"},
			Content:      []Kind{JSON, Form},
			PayloadField: "payload",
			Replay:       time.Hour,
			About: About{
				Title:     "Gitea",
				Page:      "https://docs.gitea.com/usage/repository/webhooks",
				Setup:     "Settings → Webhooks → Add webhook → Gitea: the address and the secret",
				Timeout:   "5 s unless webhook.DELIVER_TIMEOUT says otherwise",
				Retries:   "none",
				Redeliver: "ask: Recent Deliveries → Replay",
				Notes:     "It signs as Gogs does, which is proven; the body of the one vector that we know is not among the recorded ones.",
			},
		},
		"gogs": {
			Scheme:       hmacHex("X-Gogs-Signature", ""),
			ID:           []Locator{inHeader("X-Gogs-Delivery")},
			Type:         []Locator{inHeader("X-Gogs-Event"), optional(inBody("/action"))},
			KeepHeaders:  []string{"X-Gogs-Event"},
			Content:      []Kind{JSON, Form},
			PayloadField: "payload",
			Replay:       time.Hour,
			About: About{
				Title:     "Gogs",
				Page:      "https://gogs.io/docs/features/webhook",
				Setup:     "Settings → Webhooks → Add a new webhook → Gogs: the address and the secret",
				Retries:   "none",
				Redeliver: "ask: Recent Deliveries → Redelivery",
				Proof:     "vectors gogs: go-playground/webhooks",
			},
		},
		// hook_id is the subscription's. The body has the time in it, so the same
		// bytes are the same event.
		"gitee": {
			Scheme: signature.Scheme{
				Header: "X-Gitee-Token", Algorithm: "sha256", Encoding: "base64", TimestampHeader: "X-Gitee-Timestamp", TimestampUnit: "ms",
				Signed: "{timestamp}\n{secret}", BodyUnsigned: true, Tolerance: time.Hour,
			},
			ID:          []Locator{content()},
			Type:        []Locator{inHeader("X-Gitee-Event"), optional(inBody("/action"))},
			KeepHeaders: []string{"X-Gitee-Event"},
			About: About{
				Title: "Gitee",
				Page:  "https://help.gitee.com/webhook/how-to-verify-webhook-keys",
				Setup: "管理 → WebHooks → 添加 webHook: the address, and the secret as 签名密钥 (signing key)",
				Proof: "vectors gitee: drone/go-scm",
				Notes: "Gitee signs the time and not the body: use https all the way.",
			},
		},
		"vercel": {
			Scheme: signature.Scheme{Header: "X-Vercel-Signature", Algorithm: "sha1", Encoding: "hex"},
			ID:     []Locator{inBody("/id")},
			Type:   []Locator{inBody("/type")},
			About: About{
				Title:   "Vercel",
				Page:    "https://vercel.com/docs/webhooks",
				Setup:   "Team settings → Webhooks → Create webhook: the address; it shows the secret once",
				Timeout: "30 s",
				Retries: "for 24 hours",
			},
		},
	}
}
