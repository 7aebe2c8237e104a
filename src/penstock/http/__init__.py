"""An HTTP server inside another program: bound to loopback, closed to other sites, writing only with a token.

It knows nothing of what it serves. ``penstock.serve`` serves the dashboard with it, and agents their engines::

    app = FastAPI()
    answer_with_sentences(app)  # from penstock.http.problems, which needs the extra "serve"
    with HttpServer(GuardedApp(app, Access(token=token_at(path)))) as server:
        print(server.url)
"""

from penstock.http.access import Access, GuardedApp
from penstock.http.server import LOOPBACK, HttpServer, is_loopback
from penstock.http.token_file import token_at

__all__ = ["LOOPBACK", "Access", "GuardedApp", "HttpServer", "is_loopback", "token_at"]
