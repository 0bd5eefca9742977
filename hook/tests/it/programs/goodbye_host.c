/* Uses the library of goodbye.c, and ends. */
void hello(void);

int main(void) {
    hello();
    return 0;
}
