"""The rules of callbacks: for each, a URL that breaks it."""

BAD = {
    "another scheme": "ftp://127.0.0.1/x",
    "a broker": "amqp://127.0.0.1/?queue=x",
    "a host that the policy does not allow": "https://elsewhere.example/x",
    "an address that the policy does not allow": "http://192.0.2.1/x",
    "no URL": "shop",
    "no host": "http://",
    "a password": "http://a:b@127.0.0.1/x",
    "too long": "http://127.0.0.1/" + "x" * 2048,
    "a control character": "http://127.0.0.1/\x7f",
}
